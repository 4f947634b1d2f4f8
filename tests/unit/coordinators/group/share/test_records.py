from __future__ import annotations

from kaa.coordinators.group.kinds import RECORD_TYPES
from kaa.coordinators.group.share.group import InitialisedTopic, StatePartitions
from kaa.coordinators.group.share.records import (
    SHARE_RECORDS,
    group_tombstones,
    partitions_record,
)
from kaa.coordinators.records import encode_key
from kaa.model.pieces import finish
from kaa.wire.messages.offsets_share import ShareGroupStatePartitionMetadataValue
from kaa.wire.primitives import Uuid
from tests.unit.coordinators.group.share.test_groups import ready

ONE, TWO = Uuid(b"1" * 16), Uuid(b"2" * 16)


def test_every_kind_of_record_is_known() -> None:
    assert [kind.key.record_type for kind in SHARE_RECORDS.types] == [11, 10, 12, 13, 14, 15]
    for record in SHARE_RECORDS.remove_member("g", "m"):
        assert RECORD_TYPES.decode(encode_key(record.key), None) is not None


def test_the_three_stages_of_share_state() -> None:
    partitions = StatePartitions(
        {ONE: InitialisedTopic("t", frozenset({0}))},
        {TWO: InitialisedTopic("u", frozenset({1, 2}))},
        {ONE: "t"},
    )
    record = finish(partitions_record("g", partitions))
    found = RECORD_TYPES.decode(*record.encode())
    assert found is not None
    value = found[1]
    assert isinstance(value, ShareGroupStatePartitionMetadataValue)
    assert [one.topic_name for one in value.initializing_topics] == ["t"]
    assert [one.partitions for one in value.initialized_topics] == [[1, 2]]
    assert [one.topic_name for one in value.deleting_topics] == ["t"]


def test_a_group_that_ends_leaves_nothing() -> None:
    bench = ready()
    group = bench.share_group
    members = list(group.members.values())
    bench.run("end", lambda machine, now: machine.share.fence(group, members, now, response=True))
    for record in group_tombstones(bench.share_group):
        bench.machine.replay(len(bench.log), record.key, record.value, -1, -1)
    assert "g" not in bench.machine.groups
