"""AlterConfigs, key 33: replaces all settings of a resource by those in the request. Deprecated
since `k44_incremental_alter_configs` (KIP-339), and without loggers.

A broker judges the settings of brokers, and passes on to the controller what it does not refuse;
the answer has the order of the request. The controller listener passes everything on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.result import ControllerError
from kaa.handlers.altered_resources import alter_each, unknown_kind
from kaa.handlers.forwarding import forward, is_controller_listener
from kaa.model.kinds import ResourceType
from kaa.serving.config_changes import check_broker_settings, check_no_name_twice
from kaa.wire.errors import Errors
from kaa.wire.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k33_alter_configs import AlterConfigsResource


async def handle(
    services: NodeServices, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    if is_controller_listener(services, context):
        return await forward(services, request, context)

    def is_done(resource: AlterConfigsResource) -> bool:
        _check(services, resource)
        return False

    async def pass_on(resources: list[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        asked = AlterConfigsRequest(resources=resources, validate_only=request.validate_only)
        return (await forward(services, asked, context)).responses

    return AlterConfigsResponse(
        responses=await alter_each(
            request.resources, is_done, AlterConfigsResourceResponse, pass_on
        )
    )


def _check(services: NodeServices, resource: AlterConfigsResource) -> None:
    check_no_name_twice(config.name for config in resource.configs)
    settings = {}
    for config in resource.configs:
        if config.value is None:
            raise ControllerError(Errors.INVALID_REQUEST, f"{config.name} has no value")
        settings[config.name] = config.value
    match resource.resource_type:
        case ResourceType.BROKER:
            name = resource.resource_name
            check_broker_settings(services.config, services.node_id, name, settings)
        case ResourceType.TOPIC | ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            pass
        case unknown:
            raise unknown_kind(unknown)
