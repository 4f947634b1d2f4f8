"""The way of the quorum's requests to other replicas: kept connections, one per node.

Every request ends in an answer to the machine, whatever happens to it: a node that cannot be
reached, or is too slow, is BROKER_NOT_AVAILABLE; one that has no version which can carry the
request is UNSUPPORTED_VERSION. What fails for any other reason is a fault, of ours or of the other
node: it is BROKER_NOT_AVAILABLE too, and reported.
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
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._peers = peers
        self._report = report
        # Kinds of requests with kinds of errors that were reported.
        self._reported: set[tuple[str, str]] = set()
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
        except Exception as error:  # noqa: BLE001  To the machine it is as good as no answer.
            self._report_once(node, request, error)
            response = ErrorResponse(Errors.BROKER_NOT_AVAILABLE)
        deliver(node.id, correlation_id, response)

    def _report_once(self, node: Node, request: Request, error: Exception) -> None:
        """Each kind of it: the machine tries again and again."""
        kind = (type(request).__name__, type(error).__name__)
        if kind not in self._reported:
            self._reported.add(kind)
            self._report(
                f"{kind[0]} to controller {node.id} failed in this node, or its answer makes no "
                f"sense here: {error!r}; it is tried again without further reports"
            )

    def close(self) -> None:
        """Ends what is under way, and the connections."""
        for task in tuple(self._under_way):
            task.cancel()
        self._peers.close()
