"""What a handler knows of a request besides its fields, and what it gives back: an `Answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, Union

from kaa.net.pending import Pending

if TYPE_CHECKING:
    from typing import Any

    from kaa.net.connection import Connection
    from kaa.wire.frames import RequestFrame
    from kaa.wire.schema import Response

R = TypeVar("R")

# The response, or `Pending` where it is not known yet; None where the request is not answered, as
# a produce with acks=0.
Answer = Union[R, Pending[R], None]  # noqa: UP007 - a generic alias, made at run time.


async def response_of(answer: Answer[R]) -> R | None:
    """The response that stands at the end of what a handler gave."""
    while isinstance(answer, Pending):
        answer = await answer.response
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


class Handle(Protocol):
    """The function `handle` of a handler. Each takes requests of its own class, and the services of
    the nodes that have its listener.
    """

    def __call__(
        self, services: Any, request: Any, context: RequestContext, /
    ) -> Answer[Response]: ...
