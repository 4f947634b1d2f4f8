"""Where a change of the cluster's metadata goes, whichever node decides about it.

A command is the request of its API and its answer that API's response. So the port is the same for
a controller on this node, which is called, and for one on another node, which gets the request over
a connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from kaa.controller.state import ControllerRequestContext
    from kaa.wire.schema import Request

Answer = TypeVar("Answer")


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
