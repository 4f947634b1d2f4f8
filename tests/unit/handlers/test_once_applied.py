from __future__ import annotations

import asyncio

from kaa.handlers.once_applied import once_applied
from kaa.net.pending import Hold, Pending
from tests.unit.serving.test_applied import COUNT, NAMES, Case


def test_request_is_served_at_once_unless_its_partitions_wait() -> None:
    async def main() -> None:
        case = Case()
        manager = case.replicas.manager
        assert once_applied(manager, [("other", 0)], lambda: "served") == "served"
        answer = once_applied(manager, NAMES, lambda: len(case.replicas.logs.logs), Hold.FRAME)
        assert isinstance(answer, Pending)
        assert answer.hold is Hold.FRAME
        assert await answer.response == COUNT
        assert once_applied(manager, NAMES, lambda: "served") == "served"

    asyncio.run(main())
