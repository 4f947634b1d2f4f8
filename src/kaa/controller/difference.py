"""What changed between two images of the cluster.

A node that follows the log hears of every change. One that was given a snapshot instead, because it
lagged too far, has an old image and a new one, and must find out: topics that are gone have logs to
delete, even if a topic of the same name is there again under another id. What nobody follows change
by change, such as controllers and access rights, is in no delta: it is looked up in the new image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kaa.controller.image import Delta
from kaa.model.ordered import OrderedSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.controller.image import ClusterImage

Key = TypeVar("Key")


def difference(before: ClusterImage, after: ClusterImage) -> Delta:
    """What must be published so that those who follow the first image follow the second."""
    delta = Delta()
    for topic_id, topic in before.topics_by_id.items():
        if topic_id not in after.topics_by_id:
            delta.deleted_topics[topic_id] = topic
    for topic_id, topic in after.topics_by_id.items():
        known = before.topics_by_id.get(topic_id)
        for number, partition in topic.partitions.items():
            if known is None or known.partitions.get(number) != partition:
                delta.partitions.add((topic_id, number))
    delta.brokers = _changed(before.brokers, after.brokers)
    delta.configs = _changed(before.configs, after.configs)
    delta.quotas = _changed(before.quotas, after.quotas)
    delta.features = _changed(before.features, after.features)
    return delta


def _changed(before: Mapping[Key, object], after: Mapping[Key, object]) -> OrderedSet[Key]:
    """The keys whose values differ, or which only one of the two has."""
    changed = OrderedSet(key for key in before if key not in after)
    changed.update(key for key, value in after.items() if before.get(key) != value)
    return changed
