from __future__ import annotations

import asyncio

from kaa.net.pending import Hold, Pending


def test_what_is_not_known_holds_the_connection_unless_it_says_otherwise() -> None:
    async def main() -> None:
        response: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        assert Pending(response).hold is Hold.CONNECTION
        assert Pending(response, Hold.NOTHING).encode is None

    asyncio.run(main())
