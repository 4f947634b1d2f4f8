"""The table of records: old versions, and records of every kind."""

from __future__ import annotations

from kaa.coordinators.group.kinds import GROUP_KINDS, GROUP_STATES, RECORD_TYPES, known_names
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import encode_key
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX
from kaa.model.pieces import finish
from kaa.wire.messages.offsets_classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
)
from tests.unit.coordinators.group.bench import GROUP, GroupBench, subscription
from tests.unit.coordinators.group.offsets.test_committed import offsets


def test_records_of_old_versions_are_read() -> None:
    bench = GroupBench()
    for version in range(5):
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=4,
            protocol="range",
            leader="m",
            members=[
                MemberMetadata(
                    member_id="m",
                    client_id="c",
                    client_host="/h",
                    session_timeout=9,
                    subscription=subscription("t"),
                    assignment=b"A",
                )
            ],
        )
        record = NewRecord(GroupMetadataKey(group=GROUP), value, version)
        bench.load(record)
        assert bench.state == "Stable"
        assert bench.group.rebalance_timeout_ms == 9, "as long as the session"
        assert bench.group.subscribed_topics == {"t"}


def test_offsets_of_the_first_format_are_read() -> None:
    bench = GroupBench()
    key = LegacyOffsetCommitKey(group=GROUP, topic="t", partition=0)
    value = LegacyOffsetCommitValue(offset=8, metadata="m", commit_timestamp=5)
    record = NewRecord(key, value)
    assert RECORD_TYPES.decode(encode_key(key), record.encode()[1]) == (key, value)
    bench.load(record)
    assert offsets(bench) == {"t-0": 8}
    bench.load(record, NewRecord(key, None))
    assert offsets(bench) == {}


def test_a_filter_keeps_only_what_there_is() -> None:
    assert finish(known_names([], GROUP_KINDS)) is None
    assert finish(known_names([" Share", "nonsense"], GROUP_KINDS)) == {"share"}
    assert finish(known_names(["nonsense"], GROUP_STATES)) == set()
    states = ["NotReady", "Empty", "Assigning", "Reconciling", "Stable", "Dead"]
    assert len(finish(known_names(states, GROUP_STATES)) or ()) == len(states)


def test_a_long_filter_is_read_in_pieces() -> None:
    names = [f"name-{number}" for number in range(3 * NAMES_ANSWERED_PER_SLICE_MAX)]
    assert sum(1 for _ in known_names(names, GROUP_KINDS)) == 3
