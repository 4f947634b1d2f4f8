from __future__ import annotations

import pytest

from kaa.quorum import VoterSet
from kaa.quorum.control_records import (
    ControlMessage,
    build_control_records,
    kraft_version_record,
    leader_change,
    read_control_records,
    voter_set,
    voters_record,
)
from kaa.records.batch import RecordBatch
from kaa.records.build import BatchBuilder
from kaa.wire.messages.control import LeaderChangeMessage, Voter, VotersRecord
from tests.unit.quorum.disk_replica import voter


def test_one_batch_holds_them_in_order() -> None:
    messages: list[ControlMessage] = [
        leader_change(2, (1, 2, 3), (2, 3)),
        kraft_version_record(1),
        voters_record(VoterSet.of([voter(1, with_directory=True), voter(2)])),
    ]
    data = build_control_records(messages, timestamp=5, base_offset=7, epoch=3)
    batch = RecordBatch(data)
    batch.ensure_valid()
    assert batch.is_control
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (7, 9, 3)
    read = list(read_control_records(batch))
    assert [record.offset for record in read] == [7, 8, 9]
    assert [record.message for record in read] == messages
    first = read[0].message
    assert isinstance(first, LeaderChangeMessage)
    assert [each.voter_id for each in first.granting_voters] == [2, 3]


def test_voter_sets_come_back_as_they_were() -> None:
    voters = VoterSet.of([voter(2), voter(1, with_directory=True)])
    record = voters_record(voters)
    assert voter_set(VotersRecord.decode(record.encode(0), 0)) == voters


def test_a_set_with_an_id_twice_is_refused() -> None:
    record = VotersRecord(voters=[Voter(voter_id=1), Voter(voter_id=1)])
    with pytest.raises(ValueError, match="same id"):
        voter_set(record)


def test_unknown_control_records_are_passed_over() -> None:
    builder = BatchBuilder(is_control=True)
    builder.append(0, (0).to_bytes(2, "big") + (99).to_bytes(2, "big"), b"future")
    assert list(read_control_records(RecordBatch(builder.build()))) == []
