"""Requests that the active controller decides about, and where they came in.

A broker listener passes them on to the active controller, on whichever node it is. A controller
listener has nobody to pass them on to: if this node's controller is not active, the sender hears
so, and looks for the one that is.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeVar

from kaa.controller.port import ControllerRequestContext as ControllerContext
from kaa.controller.port import ForwardedClient
from kaa.controller.refusals import error_response
from kaa.controller.result import ControllerError
from kaa.model.turns import in_turns
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.schema import Request

R = TypeVar("R")


def is_controller_listener(services: NodeServices, context: RequestContext) -> bool:
    """Whether the request came in where controllers and their tools come in."""
    return context.listener_name in services.config.get_list("controller.listener.names")


def forward(
    services: NodeServices,
    request: Request[R],
    context: RequestContext,
    *,
    timeout_ms: int | None = None,
) -> Awaitable[R]:
    """Has the active controller decide; `timeout_ms` is how long the request says it may take.

    As with Kafka, whose controller finds that it is too late when it comes to it, nothing is done
    if it may take no time at all. Without an authorizer everybody may see everything, and without
    quotas nothing is charged.
    """
    if timeout_ms is not None and timeout_ms <= 0:
        return _refuse(request, context, Errors.REQUEST_TIMED_OUT)
    if is_controller_listener(services, context):
        return _decide_here(services, request, context, timeout_ms)
    client = ForwardedClient(
        context.header.client_id, context.header.correlation_id, _address(context.connection.peer)
    )
    return services.controller.submit(
        request, ControllerContext(context.api_version, client, timeout_ms)
    )


async def _refuse(request: Request[R], context: RequestContext, error: Errors) -> R:
    return await in_turns(error_response(request, context.api_version, error, None))


async def _decide_here(
    services: NodeServices,
    request: Request[R],
    context: RequestContext,
    timeout_ms: int | None,
) -> R:
    asked = ControllerContext(context.api_version, timeout_ms=timeout_ms)
    try:
        return await services.metadata.submit(request, asked)
    except ControllerError as refusal:
        if refusal.is_elsewhere and context.is_enveloped:
            # It stands on the envelope, or a broker would hand it on to its client; and in this
            # word, at which alone a JVM broker looks for another controller.
            raise ControllerError(Errors.NOT_CONTROLLER) from None
        refused = error_response(request, context.api_version, refusal.error, refusal.message)
        return await in_turns(refused)


def _address(peer: str) -> bytes:
    try:
        return ip_address(peer.partition("%")[0]).packed
    except ValueError:
        # A socket of the system, which has no address.
        return bytes(4)
