"""Where share state is kept, as the group coordinator and share-partition leaders see it.

Each call finds the share coordinator of its key, on this broker or another, and tries again for a
while where that moves. CoordinatorError is what is left to tell; a reader of state must not take
it for "no state".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.coordinators.share.machine import StateChange
    from kaa.coordinators.share.state import SharePartitionKey, ShareState


class Persister(Protocol):
    """Keeps the state of share partitions. Every call raises CoordinatorError if it gave up, which
    never means that there is no state.
    """

    async def initialise(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """A fresh start. Asks before each try whether it is still wanted, and gives up if not."""
        ...

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        """The state; older leader epochs are fenced from then on."""
        ...

    async def write(self, key: SharePartitionKey, change: StateChange) -> None: ...

    async def delete(self, key: SharePartitionKey) -> None: ...

    async def summary(self, key: SharePartitionKey) -> ShareState:
        """The numbers of the state; its batches may be missing."""
        ...
