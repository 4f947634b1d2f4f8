"""A loop that cannot reach some ports: how two nodes of a test are cut off from each other.

Nodes reach each other through `create_connection` of their loops, so that is where they are parted:
connections that were made to the ports of the other break, and new ones are refused. Done on both
nodes, that is a cut both ways.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Iterable


class CutLoop(asyncio.SelectorEventLoop):
    """The loop of asyncio, with ports that it cannot reach."""

    def __init__(self) -> None:
        super().__init__()
        self._unreachable: frozenset[int] = frozenset()
        self._opened: dict[int, WeakSet[asyncio.Transport]] = {}

    def cut(self, ports: Iterable[int]) -> None:
        """From now on these ports cannot be reached, and all others can."""
        self._unreachable = frozenset(ports)
        for port in self._unreachable:
            for transport in self._opened.pop(port, ()):
                transport.abort()

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        self._refuse(port)
        made = await super().create_connection(protocol_factory, host, port, **options)
        try:
            self._refuse(port)
        except OSError:
            made[0].abort()
            raise
        self._opened.setdefault(port, WeakSet()).add(made[0])
        return made

    def _refuse(self, port: int | None) -> None:
        if port in self._unreachable:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "cut off by the test")
