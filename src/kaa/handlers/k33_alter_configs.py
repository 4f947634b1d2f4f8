"""AlterConfigs, key 33: replaces all settings of a resource by those in the request. Deprecated
since `k44_incremental_alter_configs` (KIP-339), and without loggers.

A broker judges the settings of brokers, and passes on to the controller what it does not refuse;
the answer has the order of the request. The controller listener passes everything on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.controller.result import ControllerError
from kaa.handlers.altered_resources import alter_each, judged, unknown_kind
from kaa.handlers.forwarding import forward, is_controller_listener
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX
from kaa.model.kinds import ResourceType
from kaa.model.turns import in_turns
from kaa.net.pending import Pending
from kaa.serving.config_changes import check_broker_settings, check_no_name_twice
from kaa.wire.errors import Errors
from kaa.wire.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k33_alter_configs import AlterConfigsResource


def handle(
    services: NodeServices, request: AlterConfigsRequest, context: RequestContext
) -> Answer[AlterConfigsResponse]:
    return Pending(_alter(services, request, context))


async def _alter(
    services: NodeServices, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    if is_controller_listener(services, context):
        return await forward(services, request, context)

    async def alter_here(resource: AlterConfigsResource) -> bool:
        await _check(services, resource)
        return False

    async def pass_on(resources: list[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        asked = AlterConfigsRequest(resources=resources, validate_only=request.validate_only)
        return (await forward(services, asked, context)).responses

    return AlterConfigsResponse(
        responses=await alter_each(
            request.resources, alter_here, AlterConfigsResourceResponse, pass_on
        )
    )


async def _check(services: NodeServices, resource: AlterConfigsResource) -> None:
    settings = await in_turns(_settings(resource))
    match resource.resource_type:
        case ResourceType.BROKER:
            name = resource.resource_name
            judge = partial(
                check_broker_settings, services.config, services.node_id, name, settings
            )
            await judged(services, judge, len(settings))
        case ResourceType.TOPIC | ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            pass
        case unknown:
            raise unknown_kind(unknown)


def _settings(resource: AlterConfigsResource) -> Pieces[dict[str, str]]:
    """What the resource is to have; ControllerError if any of it cannot be."""
    yield from check_no_name_twice(config.name for config in resource.configs)
    settings = {}
    for number, config in enumerate(resource.configs, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if config.value is None:
            raise ControllerError(Errors.INVALID_REQUEST, f"{config.name} has no value")
        settings[config.name] = config.value
    return settings
