"""Which partitions the end or return of a broker touches, without looking at all of them.

The index belongs to the active controller and follows its newest image. For each broker it has the
partitions with a replica on it, in sync or not: a directory that fails takes them all. Under
`NO_LEADER` it has those that nobody leads. Those that their preferred leader does not lead are
indexed too, for the timer that balances leaders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import RECORDS_PER_PIECE
from kaa.model.nodes import NO_LEADER
from kaa.wire.messages.metadata_topics import (
    PartitionChangeRecord,
    PartitionRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.controller.image import ClusterImage, PartitionImage, TopicImage
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord


class BrokerPartitions:
    """The partitions of each broker, indexed. `build` it from an image; from then on records reach
    that image through `replay`.
    """

    def __init__(self) -> None:
        # By broker; an empty entry is dropped. Insertion order, so that a run can be repeated.
        self._partitions: dict[int, dict[tuple[Uuid, int], None]] = {}
        # How many partitions each broker leads.
        self._led_counts: dict[int, int] = {}
        # Led by another replica than the first, or by none.
        self._imbalanced: dict[tuple[Uuid, int], None] = {}

    def leads(self, broker_id: int) -> bool:
        return self._led_counts.get(broker_id, 0) > 0

    def of(self, broker_id: int, image: ClusterImage) -> Iterator[tuple[TopicImage, int]]:
        """The partitions of a broker, or of `NO_LEADER`; nothing may change meanwhile."""
        return _found(self._partitions.get(broker_id, {}), image)

    def imbalanced(self, image: ClusterImage) -> Iterator[tuple[TopicImage, int]]:
        """Those that their preferred leader does not lead; nothing may change meanwhile."""
        return _found(self._imbalanced, image)

    def build(self, image: ClusterImage) -> Pieces[None]:
        """Starts over from an image."""
        self._partitions.clear()
        self._led_counts.clear()
        self._imbalanced.clear()
        count = 0
        for topic in image.topics.values():
            for number, partition in topic.partitions.items():
                self._changed((topic.id, number), None, partition)
                count += 1
                if count % RECORDS_PER_PIECE == 0:
                    yield

    def remove(self, topic: TopicImage) -> Pieces[None]:
        """Drops the partitions of a topic that is about to be removed."""
        for count, (number, partition) in enumerate(topic.partitions.items(), 1):
            self._changed((topic.id, number), partition, None)
            if count % RECORDS_PER_PIECE == 0:
                yield

    def replay(self, record: MetadataRecord, image: ClusterImage) -> None:
        """Applies a record that concerns one partition, or none, to the image and to the index."""
        match record:
            case PartitionRecord() | PartitionChangeRecord():
                key = (record.topic_id, record.partition_id)
                before = image.topics_by_id[record.topic_id].partitions.get(record.partition_id)
                image.replay(record)
                after = image.topics_by_id[record.topic_id].partitions[record.partition_id]
                self._changed(key, before, after)
            case _:
                image.replay(record)

    def _changed(
        self, key: tuple[Uuid, int], before: PartitionImage | None, after: PartitionImage | None
    ) -> None:
        was, now = _concerned(before), _concerned(after)
        for broker_id in was:
            if broker_id not in now:
                left = self._partitions[broker_id]
                del left[key]
                if not left:
                    del self._partitions[broker_id]
        for broker_id in now:
            if broker_id not in was:
                self._partitions.setdefault(broker_id, {})[key] = None
        if before is not None:
            self._led_counts[before.leader] -= 1
        if after is not None:
            self._led_counts[after.leader] = self._led_counts.get(after.leader, 0) + 1
        if after is None or after.leader in after.replicas[:1]:
            self._imbalanced.pop(key, None)
        else:
            self._imbalanced[key] = None


def _concerned(partition: PartitionImage | None) -> set[int]:
    if partition is None:
        return set()
    brokers = set(partition.replicas)
    if partition.leader == NO_LEADER:
        brokers.add(NO_LEADER)
    return brokers


def _found(
    keys: Iterable[tuple[Uuid, int]], image: ClusterImage
) -> Iterator[tuple[TopicImage, int]]:
    return ((image.topics_by_id[topic_id], number) for topic_id, number in keys)
