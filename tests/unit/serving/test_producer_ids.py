from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kaa.controller.port import ControllerPort
from kaa.serving.producer_ids import ProducerIds
from kaa.wire.errors import Errors
from kaa.wire.messages.k67_allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from kaa.controller.port import ControllerRequestContext
    from kaa.wire.schema import Request


class Blocks(ControllerPort):
    """A controller that gives blocks of three ids, after a turn of the loop."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.error = Errors.NONE

    async def submit(self, request: Request, context: ControllerRequestContext) -> Any:
        assert isinstance(request, AllocateProducerIdsRequest)
        await asyncio.sleep(0)
        if self.error is not Errors.NONE:
            return AllocateProducerIdsResponse(error_code=self.error)
        self.asked.append(request.broker_epoch)
        return AllocateProducerIdsResponse(
            producer_id_start=1000 * len(self.asked), producer_id_len=3
        )


def test_ids_never_repeat_and_blocks_are_shared() -> None:
    async def main() -> None:
        blocks = Blocks()
        ids = ProducerIds(blocks, 1, lambda: 7)
        taken = await asyncio.gather(*(ids.next_id() for _ in range(7)))
        assert sorted(int(found) for found in taken) == [1000, 1001, 1002, 2000, 2001, 2002, 3000]
        assert blocks.asked == [7, 7, 7]

    asyncio.run(main())


def test_refusal_is_passed_on_and_the_next_try_may_succeed() -> None:
    async def main() -> None:
        blocks = Blocks()
        blocks.error = Errors.STALE_BROKER_EPOCH
        ids = ProducerIds(blocks, 1, lambda: 7)
        assert await ids.next_id() is Errors.COORDINATOR_LOAD_IN_PROGRESS
        blocks.error = Errors.NONE
        assert await ids.next_id() == 1000

    asyncio.run(main())
