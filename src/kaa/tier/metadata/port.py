"""What the rest of the tier asks of the metadata of remote segments, and the twin in memory.

`kaa.tier.metadata.topic.TopicMetadata` keeps it in a topic, for a cluster. `MemoryMetadata` forgets
it with the process, for tests and for nodes that are thrown away.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from kaa.tier.metadata.machine import MetadataMachine
from kaa.tier.metadata.records import encode_event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.tier.metadata.machine import UserPartition
    from kaa.tier.metadata.model import TopicIdPartition
    from kaa.tier.metadata.records import RemoteLogEvent


class RemoteLogMetadata(Protocol):
    """Where the metadata of remote segments is kept. Questions and changes raise
    RemoteMetadataError until it is ready.
    """

    def assign(self, partitions: Iterable[TopicIdPartition]) -> None:
        """This node leads or follows these user partitions too."""
        ...

    def unassign(self, partitions: Iterable[TopicIdPartition]) -> None:
        """And these not any more."""
        ...

    def is_ready(self, partition: TopicIdPartition) -> bool: ...

    def user(self, partition: TopicIdPartition) -> UserPartition:
        """All that is known of a user partition."""
        ...

    async def publish(self, event: RemoteLogEvent) -> None:
        """Writes an event; it counts when this returns."""
        ...

    async def run(self) -> None:
        """Works until it is cancelled."""
        ...


class MemoryMetadata:
    """The twin in memory."""

    def __init__(self) -> None:
        self._machine = MetadataMachine(1)
        self._end = 0

    def assign(self, partitions: Iterable[TopicIdPartition]) -> None:
        self._machine.assign(partitions)
        self._machine.set_target(0, 0)

    def unassign(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Nobody else would remember: it stays known."""

    def is_ready(self, partition: TopicIdPartition) -> bool:
        return self._machine.is_ready(partition)

    def user(self, partition: TopicIdPartition) -> UserPartition:
        return self._machine.user(partition)

    async def publish(self, event: RemoteLogEvent) -> None:
        self._machine.user(event.partition)
        self._machine.apply(0, self._end, encode_event(event))
        self._end += 1

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()
