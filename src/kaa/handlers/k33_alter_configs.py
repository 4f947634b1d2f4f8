"""AlterConfigs, key 33: replaces all settings of a resource by those in the request. Deprecated
since `k44_incremental_alter_configs` (KIP-339), and without loggers.

A broker judges the settings of brokers, and passes on to the controller what it does not refuse;
the answer has the order of the request. The controller listener passes everything on.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kaa.controller.configs import ResourceType
from kaa.controller.result import ControllerError
from kaa.handlers.forwarding import controller_context, is_controller_listener
from kaa.serving.config_changes import check_broker_settings, check_no_name_twice
from kaa.wire.errors import Errors
from kaa.wire.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from kaa.controller.image import Resource
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k33_alter_configs import AlterConfigsResource


async def handle(
    services: Services, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    if is_controller_listener(services, context):
        return await services.controller.alter_configs(request, controller_context(context))
    named = [_key(resource) for resource in request.resources]
    counts = Counter(named)
    answers: dict[Resource, AlterConfigsResourceResponse] = {}
    passed_on = []
    for resource, key in zip(request.resources, named, strict=True):
        try:
            if counts[key] > 1:
                raise ControllerError(Errors.INVALID_REQUEST, "the resource appears twice")
            _check(services, resource)
            passed_on.append(resource)
        except ControllerError as refusal:
            answers[key] = AlterConfigsResourceResponse(
                error_code=refusal.error,
                error_message=refusal.message,
                resource_type=key[0],
                resource_name=key[1],
            )
    if passed_on:
        asked = AlterConfigsRequest(resources=passed_on, validate_only=request.validate_only)
        response = await services.controller.alter_configs(asked, controller_context(context))
        for answer in response.responses:
            answers[answer.resource_type, answer.resource_name] = answer
    return AlterConfigsResponse(responses=[answers[key] for key in named])


def _check(services: Services, resource: AlterConfigsResource) -> None:
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
            raise ControllerError(Errors.INVALID_REQUEST, f"there are no resources {unknown}")


def _key(resource: AlterConfigsResource) -> Resource:
    return resource.resource_type, resource.resource_name
