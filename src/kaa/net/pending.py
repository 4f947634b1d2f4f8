"""Answers that are not known yet: the one form for them, from a handler to its connection.

A handler gives a response, or `Pending`: what will give the response, and what waits meanwhile
(`Hold`). What comes may be `Pending` again, with less to hold: a produce first keeps its frame
while a thread writes its batches, and is then parked until they are replicated.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

R = TypeVar("R")


class Hold(Enum):
    """What waits until the answer is known."""

    # The answer is parked: later requests of the connection go on, and are answered after it.
    NOTHING = "nothing"
    # The connection's next request waits.
    CONNECTION = "connection"
    # The next request waits, and the buffer of this one is left to its handler.
    FRAME = "frame"


class Pending(NamedTuple, Generic[R]):
    """An answer that is not known yet: a future of the response, or of another `Pending`, and what
    the connection holds back until then.
    """

    response: Awaitable[R | Pending[R] | None]
    hold: Hold = Hold.CONNECTION
    # Makes the parts to send once the future is done, however it ended; CloseConnectionError if it
    # cannot. Set on the way to the connection, where `response` is always a future.
    encode: Callable[[asyncio.Future[Any]], list[Any] | Pending[Any]] | None = None
