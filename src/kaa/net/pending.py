"""Answers that are not known yet: the one form for them, from a handler to its connection.

A handler gives a response, or `Pending`: what will give the response, and what waits meanwhile
(`Hold`). What comes may be `Pending` again, with less to hold: a produce first keeps its frame
while a thread writes its batches, and is then parked until they are replicated. None stands for a
request that is not answered.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Union

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

R_co = TypeVar("R_co", covariant=True)


class Hold(Enum):
    """What waits until the answer is known."""

    # The answer is parked: later requests of the connection go on, and are answered after it.
    NOTHING = "nothing"
    # The connection's next request waits.
    CONNECTION = "connection"
    # The next request waits, and the buffer of this one is left to its handler.
    FRAME = "frame"


class Pending(NamedTuple, Generic[R_co]):
    """An answer that is not known yet: what gives it, and what the connection holds back until
    then.
    """

    response: Awaitable[R_co | Pending[R_co] | None]
    hold: Hold = Hold.CONNECTION
    # Makes the parts to send once the future is done, however it ended; CloseConnectionError if it
    # cannot. Set on the way to the connection, where `response` is always a future.
    encode: Callable[[asyncio.Future[Any]], Reply] | None = None


# What a connection gets for a frame: parts to send, of which there may be none, or `Pending`.
Reply = Union[list[Any], Pending[Any]]  # noqa: UP007 - made at run time.
