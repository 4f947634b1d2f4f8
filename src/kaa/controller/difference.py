"""What changed between two images of the cluster.

A node that follows the log hears of every change. One that was given a snapshot instead, because it
lagged too far, has an old image and a new one, and must find out: topics that are gone have logs to
delete, even if a topic of the same name is there again under another id. What nobody follows change
by change, such as access rights, is in no delta: it is looked up in the new image.
Both images may have very many partitions, which are compared in pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kaa.controller.image import Delta
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.ordered import OrderedSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaa.controller.image import ClusterImage, PartitionImage
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid

Key = TypeVar("Key")


def difference(before: ClusterImage, after: ClusterImage) -> Pieces[Delta]:
    """What must be published so that those who follow the first image follow the second."""
    delta = Delta()
    for topic_id, topic in before.topics_by_id.items():
        if topic_id not in after.topics_by_id:
            delta.deleted_topics[topic_id] = topic
    for count, (topic_id, number, partition) in enumerate(_partitions(after), 1):
        known = before.topics_by_id.get(topic_id)
        if known is None or known.partitions.get(number) != partition:
            delta.partitions.add((topic_id, number))
        if count % RECORDS_PER_PIECE == 0:
            yield
    delta.brokers = yield from _changed(before.brokers, after.brokers)
    delta.controllers = yield from _changed(before.controllers, after.controllers)
    delta.configs = yield from _changed(before.configs, after.configs)
    delta.quotas = yield from _changed(before.quotas, after.quotas)
    delta.features = yield from _changed(before.features, after.features)
    return delta


def _partitions(image: ClusterImage) -> Iterator[tuple[Uuid, int, PartitionImage]]:
    for topic_id, topic in image.topics_by_id.items():
        for number, partition in topic.partitions.items():
            yield topic_id, number, partition


def _changed(before: Mapping[Key, object], after: Mapping[Key, object]) -> Pieces[OrderedSet[Key]]:
    """The keys whose values differ, or which only one of the two has."""
    changed = OrderedSet(key for key in before if key not in after)
    for count, (key, value) in enumerate(after.items(), 1):
        if before.get(key) != value:
            changed.add(key)
        if count % RECORDS_PER_PIECE == 0:
            yield
    return changed
