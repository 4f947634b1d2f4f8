"""What the active controller is told about a request, and where requests for it come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.controller.refusals import error_response
from kaa.controller.state import RequestContext as ControllerContext
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.schema import Request


def controller_context(context: RequestContext) -> ControllerContext:
    """Without an authorizer everybody may see everything, and without quotas nothing is charged."""
    return ControllerContext(context.api_version)


def is_controller_listener(services: Services, context: RequestContext) -> bool:
    """Whether the request came in where controllers and their tools come in."""
    return context.listener_name in services.config.get_list("controller.listener.names")


def out_of_time(request: Request, timeout_ms: int, context: RequestContext) -> Any:
    """The answer to a request that may take no time at all, None if it may take some.

    As with Kafka, whose controller finds it too late when it comes to it, nothing is done.
    """
    if timeout_ms > 0:
        return None
    return error_response(request, context.api_version, Errors.REQUEST_TIMED_OUT, None)
