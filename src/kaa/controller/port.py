"""Where a change of the cluster's metadata goes, whichever node decides about it.

A command is the request of its API and its answer that API's response. So the port is the same for
a controller on this node, which is called, and for one on another node, which gets the request over
a connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.wire.schema import Request

Answer = TypeVar("Answer")


class ForwardedClient(NamedTuple):
    """The client of a broker that passes a request on, as the controller learns of it."""

    client_id: str | None
    correlation_id: int
    # Of the client's host, 4 or 16 bytes.
    address: bytes


class ControllerRequestContext(NamedTuple):
    """Who asks, and how."""

    api_version: int
    # None for what a node asks for itself.
    client: ForwardedClient | None = None
    # How long to wait for an answer, and to look for a controller that gives one; None for as long
    # as the node waits for any request.
    timeout_ms: int | None = None
    # Charges the quota of partition mutations; ControllerError THROTTLING_QUOTA_EXCEEDED.
    charge_partition_mutations: Callable[[int], None] | None = None
    # Topics whose settings the sender may see; None for all.
    describable: frozenset[str] | None = None

    def charge(self, partitions: int) -> None:
        if self.charge_partition_mutations is not None:
            self.charge_partition_mutations(partitions)

    def may_describe(self, topic: str) -> bool:
        return self.describable is None or topic in self.describable


class ControllerPort(ABC):
    """Submits a request to the active controller, wherever that is, and gives its response."""

    @abstractmethod
    async def submit(self, request: Request[Answer], context: ControllerRequestContext) -> Answer:
        """The response, when what it changed is committed.

        What a controller refuses is in the response. A controller that is not active, or cannot be
        reached, is looked for until the deadline of the context, and one that does not answer is
        waited for as long; then the response says REQUEST_TIMED_OUT, and what was asked for may
        still happen.
        """
