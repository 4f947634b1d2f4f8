"""What the active controller is told about a request, and where requests for it come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.state import RequestContext as ControllerContext

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services


def controller_context(context: RequestContext) -> ControllerContext:
    """Without an authorizer everybody may see everything, and without quotas nothing is charged."""
    return ControllerContext(context.api_version)


def is_controller_listener(services: Services, context: RequestContext) -> bool:
    """Whether the request came in where controllers and their tools come in."""
    return context.listener_name in services.config.get_list("controller.listener.names")
