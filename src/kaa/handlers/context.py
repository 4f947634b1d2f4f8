"""What a handler knows of a request besides its fields, and what it gives back.

A handler gives an `Answer`: the response, or `Pending` where it is not known yet. One that is
written as a coroutine is `Pending` that holds the connection.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Union

from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.net.connection import Connection
    from kaa.wire.frames import RequestFrame

R = TypeVar("R")

Answer = Union[R, Pending[R]]  # noqa: UP007 - a generic alias, made at run time.


class Encoded(NamedTuple):
    """A response that was encoded already, since that takes too long for the loop."""

    parts: list[Any]


async def settled(answer: Any) -> Any:
    """The response that stands at the end of what a handler gave."""
    while True:
        if isinstance(answer, Pending):
            answer = await answer.response
        elif isawaitable(answer):
            answer = await answer
        else:
            return answer


class RequestContext(NamedTuple):
    """One request on one connection."""

    header: RequestFrame
    connection: Connection
    # Whether a broker passes it on in an envelope.
    is_enveloped: bool = False

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
