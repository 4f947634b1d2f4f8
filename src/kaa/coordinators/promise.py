"""The response to a command that is not committed yet.

A promise is kept by the shard: with the response when the command is committed, or with a refusal.
Where the caller says how a refusal reads in its API (`refused`), the promise always ends in a
finished response; otherwise a refusal is raised where it is awaited.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.coordinators.machine import CoordinatorError

R = TypeVar("R")


class Promise(asyncio.Future[R]):
    """A future of the response to a command, which the shard ends by a result or by `refuse`."""

    __slots__ = ("_refused",)

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        refused: Callable[[CoordinatorError], R] | None = None,
    ) -> None:
        super().__init__(loop=loop)
        self._refused = refused

    def refuse(self, error: CoordinatorError) -> None:
        """Ends in the refusal, in the words of the client's API if they are known."""
        if self.done():
            return
        if self._refused is None:
            self.set_exception(error)
        else:
            self.set_result(self._refused(error.for_clients()))
