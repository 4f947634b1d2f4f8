from __future__ import annotations

from collections.abc import Iterable

from kaa.coordinators.group.offsets.fetch import fetch_offsets
from kaa.model.pieces import finish
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kaa.wire.messages.offsets_classic import OffsetCommitKey, OffsetCommitValue
from kaa.wire.primitives import Uuid
from tests.unit.coordinators.group.bench import GROUP, GroupBench, fetched
from tests.unit.coordinators.group.offsets.test_committed import offsets


def test_fetching_by_name_and_by_id() -> None:
    bench = GroupBench()
    known, other = Uuid(b"id-of-topic-000t"), Uuid(b"id-of-topic-0000")
    key = OffsetCommitKey(group=GROUP, topic="t", partition=0)
    bench.machine.timeline.commit(1)
    bench.machine.replay(
        0, key, OffsetCommitValue(offset=7, leader_epoch=3, topic_id=known), -1, -1
    )

    def fetch(topic_id: Uuid, partitions: Iterable[int] = (0, 1)) -> list[tuple[int, int]]:
        topic = OffsetFetchRequestTopics(
            name="t", topic_id=topic_id, partition_indexes=list(partitions)
        )
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
        (found,) = finish(fetch_offsets(bench.machine, request, fetched, is_stable=False))
        return [(one.offset, one.leader_epoch) for one in found.partitions]

    assert fetch(Uuid(bytes(16))) == [(7, 3), (-1, -1)]
    assert fetch(known) == [(7, 3), (-1, -1)]
    assert fetch(other) == [(-1, -1), (-1, -1)], "committed for an earlier topic of that name"


def test_fetching_from_a_group_that_does_not_exist() -> None:
    assert offsets(GroupBench(), "nothing") == {}
