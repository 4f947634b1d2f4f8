"""The response to a command that is not committed yet.

A promise is kept by the shard: with the answer when the command is committed, or with a refusal.
Handlers say how a refusal reads in their API (`refused`), and where the answer of the machine is
not the response itself, how that reads (`respond`): the promise always ends in a finished response.
Without them, for callers inside the node, it ends in the answer, and a refusal is raised where it
is awaited.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from kaa.coordinators.machine import CoordinatorError
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from kaa.model.pieces import Pieces

R = TypeVar("R")


class Promise(asyncio.Future[R]):
    """A future of the response to a command, which the shard ends by `keep` or by `refuse`."""

    __slots__ = ("_refused", "_respond")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        refused: Callable[[CoordinatorError], R] | None = None,
        respond: Callable[[Any], R] | None = None,
    ) -> None:
        super().__init__(loop=loop)
        self._refused = refused
        self._respond = respond

    def keep(self, answer: Any) -> None:
        """Ends in the response that the answer of the machine is, or makes."""
        if self.done():
            return
        try:
            self.set_result(answer if self._respond is None else self._respond(answer))
        except Exception as error:  # noqa: BLE001 - it costs the one who waits, not the shard.
            self.set_exception(error)

    def refuse(self, error: CoordinatorError) -> Self:
        """Ends in the refusal, in the words of the client's API if they are known."""
        if self._refused is None:
            if not self.done():
                # Where it was raised is known. The frames there know this promise: thousands of
                # such circles would be left to the collector of garbage, which takes a while.
                self.set_exception(error.with_traceback(None))
        elif not self.done():
            try:
                self.set_result(self._refused(error.for_clients()))
            except Exception as fault:  # noqa: BLE001 - as above.
                self.set_exception(fault)
        return self


def keep_in_pieces(
    loop: asyncio.AbstractEventLoop,
    pieces: Pieces[Any],
    answer: Promise[Any],
    is_refused: Callable[[], bool] = lambda: False,
) -> None:
    """Ends in what the work gives, with turns for others in between. The work is dropped when
    nobody waits any more; it is refused with NOT_COORDINATOR as soon as `is_refused`.
    """
    if answer.done():
        return
    if is_refused():
        answer.refuse(CoordinatorError(Errors.NOT_COORDINATOR))
        return
    try:
        next(pieces)
    except StopIteration as stop:
        answer.keep(stop.value)
    except CoordinatorError as error:
        answer.refuse(error)
    except Exception:
        answer.refuse(CoordinatorError(Errors.UNKNOWN_SERVER_ERROR))
        raise
    else:
        loop.call_soon(keep_in_pieces, loop, pieces, answer, is_refused)
