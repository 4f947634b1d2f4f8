from __future__ import annotations

from kaa.coordinators.group.classic.group import ClassicGroup
from kaa.coordinators.group.classic.records import (
    group_of_record,
    group_record,
    group_tombstone,
    new_group_record,
)
from kaa.wire.messages.offsets_classic import GroupMetadataValue
from tests.unit.coordinators.group.bench import GroupBench


def test_a_group_is_read_as_it_was_written() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b", protocols=["range", "sticky"])
    bench.join("i", instance="i", protocols=["range"])
    bench.join("a", ids["a"], protocols=["range", "sticky"])
    bench.join("b", ids["b"], protocols=["range", "sticky"])
    group = bench.group
    assignments = {member_id: member_id.encode() for member_id in group.members}
    record = group_record(group, assignments)
    assert record.value_version == 3
    assert isinstance(record.value, GroupMetadataValue)
    read = group_of_record("g", record.value)
    assert list(read.members) == list(group.members)
    assert (read.generation_id, read.protocol_name, read.leader_id) == (2, "range", group.leader_id)
    assert read.static_members == group.static_members
    for member_id, member in read.members.items():
        before = group.members[member_id]
        assert member.assignment == member_id.encode()
        assert member.protocols == (("range", before.metadata("range")),), "only the chosen one"
        assert member.session_timeout_ms == before.session_timeout_ms
        assert (member.client_id, member.client_host) == (before.client_id, before.client_host)


def test_a_new_group_and_one_that_is_gone() -> None:
    record = new_group_record(ClassicGroup("g", 5))
    assert isinstance(record.value, GroupMetadataValue)
    assert (record.value.generation, record.value.current_state_timestamp) == (0, 5)
    read = group_of_record("g", record.value)
    assert (read.protocol_type, read.state.value, read.state_timestamp_ms) == (None, "Empty", 5)
    assert group_tombstone("g").value is None
    unknown = new_group_record(ClassicGroup("g", None)).value
    assert isinstance(unknown, GroupMetadataValue)
    assert group_of_record("g", unknown).state_timestamp_ms is None
