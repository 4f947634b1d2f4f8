"""The state of a partition that a consumer reads: how far it is, and where it is fetched."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kaa.client.metadata import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Container

    from kaa.client.consumer.fetched import FetchedRecords
    from kaa.client.consumer.records import ConsumerRecord


class AssignedPartition:
    """Owned by the fetcher; `move`, `seek` and `forget_position` are the ways to change the
    position other than handing out records.

    A loop takes records in portions and hands them out one by one. Those it still has (`held`)
    lie before the position, and are not the application's yet: `reached` says how far that is.
    """

    __slots__ = (
        "_replica_id",
        "_replica_until",
        "chunks",
        "fetch_offset",
        "held",
        "high_watermark",
        "is_paused",
        "position",
        "wants_committed",
    )

    def __init__(self, *, wants_committed: bool) -> None:
        # None: not known yet, to be looked up: what was committed, else `auto.offset.reset`.
        self.position: int | None = None
        self.fetch_offset = -1
        self.wants_committed = wants_committed
        self.chunks: deque[FetchedRecords] = deque()
        # Records that were taken from the chunks and not handed out yet.
        self.held: deque[ConsumerRecord] = deque()
        self.high_watermark = -1
        self.is_paused = False
        # The replica to which the leader sent this consumer, and until when.
        self._replica_id = NO_NODE
        self._replica_until = 0.0

    @property
    def reached(self) -> int | None:
        """The offset of the next record that the application gets: what a commit is about."""
        return self.held[0].offset if self.held else self.position

    def forget_position(self) -> None:
        """Drops what was fetched; a new position has to be found."""
        self.position = None
        self.chunks.clear()
        self.held.clear()

    def move(self, offset: int) -> None:
        """Goes on there after what is held."""
        self.position = self.fetch_offset = offset
        self.chunks.clear()

    def seek(self, offset: int) -> None:
        """Goes on there at once."""
        self.held.clear()
        self.move(offset)

    # --- the nearer replica (KIP-392)

    def go_to_replica(self, node_id: int, until: float) -> None:
        """Fetches from a replica that is nearer than the leader, until the given time."""
        self._replica_id = node_id
        self._replica_until = until

    def leave_replica(self) -> bool:
        """Back to the leader; whether it was at a replica."""
        was_there = self._replica_id != NO_NODE
        self._replica_id = NO_NODE
        return was_there

    def replica(self, now: float, brokers: Container[int]) -> int:
        """The replica to fetch from; -1: the leader."""
        if self._replica_id in brokers and now < self._replica_until:
            return self._replica_id
        return NO_NODE
