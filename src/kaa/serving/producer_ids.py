"""Ids for producers, handed out from blocks that the controller gives to this broker (KIP-730).

A block is this broker's alone, so that no two producers of the cluster ever have the same id. What
is left of a block when the broker stops is lost: there are 2**63 ids.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kaa.controller.port import ControllerRequestContext
from kaa.wire.errors import Errors
from kaa.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.controller.port import ControllerPort

_VERSION: Final = AllocateProducerIdsRequest.valid_versions.high


class ProducerIds:
    """Hands out producer ids, and asks the controller for the next block when one is used up."""

    def __init__(
        self, controller: ControllerPort, node_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        # The rest of the current block.
        self._block = iter(range(0))
        # Held while a block is asked for, so that those who wait meanwhile share it.
        self._allocation = asyncio.Lock()

    async def next_id(self) -> int | Errors:
        """An id that nobody has; or why the controller gives none, which may be tried again."""
        for producer_id in self._block:
            return producer_id
        async with self._allocation:
            for producer_id in self._block:
                return producer_id
            error = await self._allocate()
            return next(self._block) if error is Errors.NONE else error

    async def _allocate(self) -> Errors:
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch()
        )
        try:
            response = await self._controller.submit(request, ControllerRequestContext(_VERSION))
        except ConnectionError:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        if response.error_code != Errors.NONE:
            # Kafka's clients take any other error as final.
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        first = response.producer_id_start
        self._block = iter(range(first, first + response.producer_id_len))
        return Errors.NONE
