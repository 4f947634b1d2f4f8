"""Which partition a record goes to, as in Java's producer.

A record with a key goes by the hash of its key. Records without one stick to a partition until
about `batch.size` bytes went there, then to another one drawn by chance among those that have a
leader: that fills batches and spreads load evenly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.client.metadata import NO_NODE
from kaa.records.partitioner import partition_of_key

if TYPE_CHECKING:
    from random import Random

    from kaa.client.metadata import Topic
    from kaa.records.batch import Buffer


class Partitioner:
    """The choice of one producer over all its topics."""

    __slots__ = ("_ignores_keys", "_random", "_stick_bytes", "_sticky")

    def __init__(self, stick_bytes: int, random: Random, *, ignores_keys: bool = False) -> None:
        self._stick_bytes = max(1, stick_bytes)
        self._random = random
        self._ignores_keys = ignores_keys
        # By topic: the partition, and the bytes that went to it.
        self._sticky: dict[str, tuple[int, int]] = {}

    def choose(self, topic: Topic, key: Buffer | None, record_bytes: int) -> int:
        """The partition of the next record."""
        if key is not None and not self._ignores_keys:
            return partition_of_key(key, len(topic.partitions))
        partition, sent_bytes = self._sticky.get(topic.name, (-1, self._stick_bytes))
        if sent_bytes >= self._stick_bytes or partition >= len(topic.partitions):
            partition, sent_bytes = self._draw(topic, partition), 0
        self._sticky[topic.name] = (partition, sent_bytes + record_bytes)
        return partition

    def _draw(self, topic: Topic, last: int) -> int:
        able = [one.partition for one in topic.partitions if one.leader_id != NO_NODE]
        candidates = able or list(range(len(topic.partitions)))
        others = [partition for partition in candidates if partition != last]
        return self._random.choice(others or candidates)
