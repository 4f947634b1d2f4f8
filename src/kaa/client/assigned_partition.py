"""The state of a partition that a consumer reads: how far it is, and where it is fetched."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kaa.client.metadata import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Container

    from kaa.client.fetched import FetchedRecords


class AssignedPartition:
    """Owned by the fetcher; ``move`` and ``forget_position`` are the ways to change the position
    other than handing out records.
    """

    __slots__ = (
        "_replica_id",
        "_replica_until",
        "chunks",
        "fetch_offset",
        "high_watermark",
        "is_paused",
        "position",
        "wants_committed",
    )

    def __init__(self, *, wants_committed: bool) -> None:
        # None: not known yet, to be looked up: what was committed, else ``auto.offset.reset``.
        self.position: int | None = None
        self.fetch_offset = -1
        self.wants_committed = wants_committed
        self.chunks: deque[FetchedRecords] = deque()
        self.high_watermark = -1
        self.is_paused = False
        # The replica to which the leader sent this consumer, and until when.
        self._replica_id = NO_NODE
        self._replica_until = 0.0

    def forget_position(self) -> None:
        self.position = None
        self.chunks.clear()

    def move(self, offset: int) -> None:
        self.position = self.fetch_offset = offset
        self.chunks.clear()

    # --- the nearer replica (KIP-392)

    def go_to_replica(self, node_id: int, until: float) -> None:
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
