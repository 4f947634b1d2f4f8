"""Topics as consumer groups look at them: ids, numbers of partitions, racks, and a hash of these.

The hash of a topic is XXH3 over a byte 0, the id, the name, the number of partitions, and for each
partition its number and the sorted racks of its replicas; that of a group is XXH3 over the hashes
of its topics in the order of their names. A string is its UTF-16 code units and then their number;
the length of a rack stands before it too. A group whose hash differs from the stored one has other
topics than its assignment was made for.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from kaa.controller.image import ClusterImage
from kaa.coordinators.group.java_order import java_string_order
from kaa.coordinators.group.xxh3 import xxh3_64
from kaa.limits import (
    GROUP_HASHES_MAX,
    GROUP_TOPIC_HASHES_PER_PIECE,
    NAMES_ANSWERED_PER_SLICE_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.controller.image import Delta, TopicImage
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid

_INT: Final = Struct("<i")
_LONG: Final = Struct("<q")


class GroupTopics:
    """The topics of the cluster, for all shards of a broker. Changed by `update` alone."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self._known: set[Uuid] = set()
        self._hashes: dict[str, int] = {}
        # Of the topics of groups, until one of the topics changes.
        self._group_hashes: dict[frozenset[str], int] = {}
        # Counts changes that can matter to groups: they look at their topics again after one.
        self.version = 0
        # Where the image stands in the metadata log, and where it stood when a topic was created.
        self.offset = 0
        self.created_offset = 0

    def update(self, image: ClusterImage, delta: Delta, offset: int) -> None:
        """The committed metadata has changed."""
        self._image = image
        self.offset = offset
        changed = {topic.name for topic in delta.deleted_topics.values()}
        self._known.difference_update(delta.deleted_topics)
        for topic_id in dict.fromkeys(topic_id for topic_id, _ in delta.partitions):
            if topic_id not in self._known:
                self._known.add(topic_id)
                self.created_offset = offset
            changed.add(image.topics_by_id[topic_id].name)
        if delta.brokers:
            # A rack may have changed, which every topic may have replicas in.
            self._hashes.clear()
        if changed or delta.brokers:
            self.version += 1
            self._group_hashes.clear()
            for name in changed:
                self._hashes.pop(name, None)

    # --- questions

    @property
    def names(self) -> Iterable[str]:
        return self._image.topics

    def topic_id(self, name: str) -> Uuid | None:
        topic = self._image.topics.get(name)
        return None if topic is None else topic.id

    def topic_ids(self, names: Iterable[str]) -> frozenset[Uuid]:
        """The ids of those topics that exist."""
        topics = self._image.topics
        return frozenset(topics[name].id for name in names if name in topics)

    def name(self, topic_id: Uuid) -> str | None:
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, topic_id: Uuid) -> int:
        return len(self._image.topics_by_id[topic_id].partitions)

    def prepare(self, names: Iterable[str]) -> Pieces[None]:
        """Makes what the hash of these topics takes, which is long for thousands of them."""
        count = 0
        for looked_at, name in enumerate(names, 1):
            if looked_at % NAMES_ANSWERED_PER_SLICE_MAX == 0:
                yield
            if name not in self._hashes and name in self._image.topics:
                count += 1
                self._topic_hash(name)
                if count % GROUP_TOPIC_HASHES_PER_PIECE == 0:
                    yield
        # What uses it has its own turn.
        yield

    def is_prepared(self, names: Iterable[str]) -> bool:
        hashes, topics = self._hashes, self._image.topics
        return all(name in hashes or name not in topics for name in names)

    def group_hash(self, names: Iterable[str]) -> int:
        """The hash of the topics among these that exist; 0 for none."""
        key = frozenset(names)
        value = self._group_hashes.get(key)
        if value is None:
            if len(self._group_hashes) >= GROUP_HASHES_MAX:
                self._group_hashes.clear()
            value = self._group_hashes[key] = self._group_hash(key)
        return value

    def _group_hash(self, names: frozenset[str]) -> int:
        topics = self._image.topics
        found = sorted((name for name in names if name in topics), key=java_string_order)
        if not found:
            return 0
        return xxh3_64(b"".join(_LONG.pack(self._topic_hash(name)) for name in found))

    def _topic_hash(self, name: str) -> int:
        value = self._hashes.get(name)
        if value is None:
            value = self._hashes[name] = xxh3_64(self._describe(self._image.topics[name]))
        return value

    def _describe(self, topic: TopicImage) -> bytes:
        brokers = self._image.brokers
        count = len(topic.partitions)
        parts = [b"\0", topic.id[7::-1], topic.id[:7:-1], _string(topic.name), _INT.pack(count)]
        for number in range(count):
            parts.append(_INT.pack(number))
            replicas = (brokers.get(one) for one in topic.partitions[number].replicas)
            racks = [one.rack for one in replicas if one is not None and one.rack is not None]
            for rack in sorted(racks, key=java_string_order):
                encoded = _string(rack)
                parts += [encoded[-_INT.size :], encoded]
        return b"".join(parts)


def _string(text: str) -> bytes:
    data = text.encode("utf-16-le", "surrogatepass")
    return data + _INT.pack(len(data) // 2)
