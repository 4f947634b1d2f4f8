"""The way of the quorum's requests to other replicas: kept connections, one per node.

Every request ends in an answer to the machine, whatever happens to it: a node that cannot be
reached, or is too slow, is BROKER_NOT_AVAILABLE; one that has no version which can carry the
request is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from asyncio import get_running_loop
from typing import TYPE_CHECKING

from kaa.client.errors import UnsupportedApiError
from kaa.quorum.messages import ErrorResponse
from kaa.quorum.outgoing import machine_response, wire_request
from kaa.wire.errors import Errors
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from kaa.client.peer import Peers
    from kaa.quorum.messages import Request, Response
    from kaa.quorum.voters import Node


class QuorumTransport:
    """Sends the quorum's requests to other nodes: the `QuorumNetwork` of a real node. `close` it
    after the driver has stopped.
    """

    def __init__(
        self,
        peers: Peers,
        tasks: asyncio.TaskGroup,
        *,
        listener: str,
        timeout_ms: int,
    ) -> None:
        self._peers = peers
        self._tasks = tasks
        self._listener = listener
        self._timeout_ms = timeout_ms
        # Kept until they are done, in the order they left.
        self._under_way: dict[asyncio.Task[None], None] = {}

    def send(
        self,
        node: Node,
        correlation_id: int,
        request: Request,
        deliver: Callable[[int, int, Response], None],
    ) -> None:
        exchange = self._exchange(node, correlation_id, request, deliver)
        try:
            task = self._tasks.create_task(exchange)
        except RuntimeError:
            # The node is ending after a failure, and talks to nobody any more.
            exchange.close()
            error = ErrorResponse(Errors.BROKER_NOT_AVAILABLE)
            get_running_loop().call_soon(deliver, node.id, correlation_id, error)
            return
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)

    async def _exchange(
        self,
        node: Node,
        correlation_id: int,
        request: Request,
        deliver: Callable[[int, int, Response], None],
    ) -> None:
        response: Response
        try:
            peer = self._peers.at(node.id, node.host, node.port)
            answer = await peer.request(wire_request(request), timeout_ms=self._timeout_ms)
            response = machine_response(answer, self._listener)
        except ConnectionError:
            response = ErrorResponse(Errors.BROKER_NOT_AVAILABLE)
        except (UnsupportedApiError, WireError):
            response = ErrorResponse(Errors.UNSUPPORTED_VERSION)
        except Exception:  # noqa: BLE001  An answer that makes no sense is as good as none.
            response = ErrorResponse(Errors.BROKER_NOT_AVAILABLE)
        deliver(node.id, correlation_id, response)

    def close(self) -> None:
        """Ends what is under way, and the connections."""
        for task in tuple(self._under_way):
            task.cancel()
        self._peers.close()
