"""What a handler is told about a request besides its fields."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from kaa.net.connection import Connection
    from kaa.wire.frames import RequestFrame


class RequestContext(NamedTuple):
    """One request on one connection."""

    header: RequestFrame
    connection: Connection

    @property
    def api_version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def client_host(self) -> str:
        """The address of the client as Java prints one whose name was not looked up."""
        return f"/{self.connection.peer}"

    @property
    def listener_name(self) -> str:
        return self.connection.listener_name


class Parked(NamedTuple):
    """Returned by a handler whose work is done in order but whose answer waits: later requests of
    the connection go on. `respond` makes the response of the future once that is done, however it
    ended.
    """

    done: asyncio.Future[Any]
    respond: Callable[[asyncio.Future[Any]], Any]

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done.done():
            yield from asyncio.wait([self.done]).__await__()
        return self.respond(self.done)


class KeepsFrame(NamedTuple):
    """Returned by a handler that goes on reading the buffers of its request: they are left to it,
    and the connection's next request waits, until the coroutine gives the response, or `Parked` as
    the promise of one.
    """

    response: Coroutine[Any, Any, Any]
