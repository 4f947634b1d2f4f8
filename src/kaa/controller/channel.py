"""The way from a node to the active controller, on this node or another.

What a node asks for itself (registration, heartbeats, changes of an ISR, producer ids) goes out as
it is. What a client asked for goes in an Envelope with the principal and the address of the client
(KIP-590). A controller that is not active any more says NOT_CONTROLLER, on the envelope; that, a
broken connection and a leader that is not known yet lead to another try at the controller that is
known then, until the deadline.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Final, TypeVar

from kaa.client.backoff import Backoff
from kaa.client.errors import UnsupportedApiError
from kaa.controller.port import ControllerPort
from kaa.controller.quorum_requests import QUORUM_REQUESTS
from kaa.controller.refusals import error_response
from kaa.controller.result import ControllerError
from kaa.limits import CONTROLLER_RETRY_PAUSE_MS, CONTROLLER_RETRY_PAUSE_MS_MAX
from kaa.model.turns import in_turns
from kaa.wire.errors import Errors
from kaa.wire.frames import decode_response, encode_request
from kaa.wire.messages.embedded import DefaultPrincipalData
from kaa.wire.messages.k58_envelope import EnvelopeRequest
from kaa.wire.primitives import WireError
from kaa.wire.registry import api

if TYPE_CHECKING:
    from kaa.client.peer import Peer, Peers
    from kaa.controller.port import ControllerRequestContext, ForwardedClient
    from kaa.controller.replica import MetadataReplica
    from kaa.model.seams import RandomSource
    from kaa.wire.schema import Request

Answer = TypeVar("Answer")

_SIZE: Final = struct.Struct(">i")
# Without authentication everybody is this user.
_PRINCIPAL: Final = struct.pack(">h", 0) + DefaultPrincipalData(
    type="User", name="ANONYMOUS"
).encode(0)


class ControllerChannel(ControllerPort):
    """The `ControllerPort` of a node whose controller may be anywhere: finds the active one, and
    tries again until the deadline.
    """

    def __init__(
        self,
        replica: MetadataReplica,
        peers: Peers,
        random: RandomSource,
        *,
        node_id: int,
        timeout_ms: int,
    ) -> None:
        self._replica = replica
        self._peers = peers
        self._random = random
        self._node_id = node_id
        self._timeout_ms = timeout_ms

    async def submit(self, request: Request[Answer], context: ControllerRequestContext) -> Answer:
        loop, version = asyncio.get_running_loop(), context.api_version
        timeout_ms = self._timeout_ms if context.timeout_ms is None else context.timeout_ms
        deadline = loop.time() + timeout_ms / 1000
        backoff = Backoff(CONTROLLER_RETRY_PAUSE_MS, CONTROLLER_RETRY_PAUSE_MS_MAX, self._random)
        error = Errors.REQUEST_TIMED_OUT
        leader = self._replica.leader
        while (left := deadline - loop.time()) > 0:
            if self._replica.leader != leader:
                # A new one is active within milliseconds, however long the last one was not.
                leader = self._replica.leader
                backoff.reset()
            try:
                return await self._ask(request, context, left)
            except ControllerError as refusal:
                if not refusal.is_elsewhere:
                    refused = error_response(request, version, refusal.error, refusal.message)
                    return await in_turns(refused)
            except UnsupportedApiError:
                error = Errors.UNSUPPORTED_VERSION
                return await in_turns(error_response(request, version, error, None))
            except ConnectionError:
                pass
            if self._replica.is_stopped:
                error = Errors.NOT_CONTROLLER
                break
            if self._replica.leader == leader:
                pause = min(backoff.next_ms() / 1000, deadline - loop.time())
                await self._replica.leader_changed(max(pause, 0.0))
        return await in_turns(error_response(request, version, error, None))

    async def _ask(
        self, request: Request[Answer], context: ControllerRequestContext, seconds: float
    ) -> Answer:
        """One try; ControllerError `is_elsewhere` or ConnectionError if there may be another."""
        node_id = self._replica.leader.node_id
        if node_id is None:
            raise ConnectionError("no controller is known to be active")
        timeout_ms = max(1, int(seconds * 1000))
        if node_id == self._node_id:
            return await self._replica.submit(request, context._replace(timeout_ms=timeout_ms))
        node = self._replica.driver.leader_node()
        if node is None:
            raise ConnectionError(f"the address of controller {node_id} is not known")
        peer = self._peers.at(node.id, node.host, node.port)
        if context.client is not None:
            return await self._forward(peer, request, context, context.client, seconds)
        answer = await peer.request(request, version_max=context.api_version, timeout_ms=timeout_ms)
        if getattr(answer, "error_code", Errors.NONE) == Errors.NOT_CONTROLLER:
            raise ControllerError(Errors.NOT_CONTROLLER)
        return answer

    async def _forward(
        self,
        peer: Peer,
        request: Request[Answer],
        context: ControllerRequestContext,
        client: ForwardedClient,
        seconds: float,
    ) -> Answer:
        parts = encode_request(
            request, context.api_version, client.correlation_id, client.client_id
        )
        envelope = EnvelopeRequest(
            request_data=b"".join(parts)[_SIZE.size :],
            request_principal=_PRINCIPAL,
            client_host_address=client.address,
        )
        # A client in a hurry gives up alone: a connection ends with the first request that is not
        # answered in time, and others wait for theirs.
        timeout_ms = max(self._timeout_ms, int(seconds * 1000))
        try:
            async with asyncio.timeout(seconds):
                outer = await peer.request(envelope, timeout_ms=timeout_ms)
        except TimeoutError:
            raise ControllerError(Errors.REQUEST_TIMED_OUT) from None
        if outer.error_code != Errors.NONE:
            raise ControllerError(Errors.of(outer.error_code))
        try:
            _, answer = decode_response(
                outer.response_data or b"", api(request.api_key), context.api_version
            )
        except WireError as error:
            raise ControllerError(
                Errors.UNKNOWN_SERVER_ERROR, f"the controller's answer cannot be read: {error}"
            ) from None
        if type(request) in QUORUM_REQUESTS and answer.error_code == Errors.NOT_LEADER_OR_FOLLOWER:
            # A JVM controller does not say it on the envelope.
            raise ControllerError(Errors.NOT_LEADER_OR_FOLLOWER)
        found: Answer = answer
        return found
