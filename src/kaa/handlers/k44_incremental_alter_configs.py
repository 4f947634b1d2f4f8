"""IncrementalAlterConfigs, key 44: changes single settings of topics, brokers, loggers, groups and
metrics subscriptions (KIP-339).

A broker judges what it can judge best (`kaa.serving.config_changes`) and passes the rest on to the
controller; the answer has the order of the request. Each resource is taken or refused by itself,
but none may appear twice.

On the controller listener only loggers are dealt with here, and their answers come last.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kaa.controller.configs import Operation, ResourceType
from kaa.controller.result import ControllerError
from kaa.handlers.forwarding import controller_context, is_controller_listener
from kaa.serving.config_changes import alter_loggers, check_broker_changes, check_no_name_twice
from kaa.wire.errors import Errors
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from kaa.controller.configs import Changes
    from kaa.controller.image import Resource
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k44_incremental_alter_configs import AlterConfigsResource


async def handle(
    services: Services, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    if is_controller_listener(services, context):
        return await _controller(services, request, context)
    named = [_key(resource) for resource in request.resources]
    counts = Counter(named)
    answers: dict[Resource, AlterConfigsResourceResponse] = {}
    passed_on = []
    for resource, key in zip(request.resources, named, strict=True):
        try:
            if counts[key] > 1:
                raise ControllerError(Errors.INVALID_REQUEST, "the resource appears twice")
            if _is_done(services, resource, validate_only=request.validate_only):
                answers[key] = _answer(resource)
            else:
                passed_on.append(resource)
        except ControllerError as refusal:
            answers[key] = _answer(resource, refusal)
    if passed_on:
        asked = IncrementalAlterConfigsRequest(
            resources=passed_on, validate_only=request.validate_only
        )
        response = await services.controller.incremental_alter_configs(
            asked, controller_context(context)
        )
        for answer in response.responses:
            answers[answer.resource_type, answer.resource_name] = answer
    return IncrementalAlterConfigsResponse(responses=[answers[key] for key in named])


def _is_done(services: Services, resource: AlterConfigsResource, *, validate_only: bool) -> bool:
    """Judges a resource here; whether the controller has nothing to do with it."""
    check_no_name_twice(config.name for config in resource.configs)
    for config in resource.configs:
        if config.config_operation != Operation.DELETE and config.value is None:
            raise ControllerError(Errors.INVALID_REQUEST, f"{config.name} has no value")
    changes, name = _changes(resource), resource.resource_name
    match resource.resource_type:
        case ResourceType.BROKER_LOGGER:
            alter_loggers(services.node_id, name, changes, validate_only=validate_only)
            return True
        case ResourceType.BROKER:
            stored = services.image.configs.get(_key(resource), {})
            check_broker_changes(services.config, services.node_id, name, changes, stored)
        case ResourceType.TOPIC | ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            pass
        case unknown:
            raise ControllerError(Errors.INVALID_REQUEST, f"there are no resources {unknown}")
    return False


async def _controller(
    services: Services, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    answers, passed_on = [], []
    for resource in request.resources:
        if resource.resource_type != ResourceType.BROKER_LOGGER:
            passed_on.append(resource)
            continue
        try:
            changes = _changes(resource)
            alter_loggers(
                services.node_id,
                resource.resource_name,
                changes,
                validate_only=request.validate_only,
            )
            answers.append(_answer(resource))
        except ControllerError as refusal:
            answers.append(_answer(resource, refusal))
    asked = IncrementalAlterConfigsRequest(resources=passed_on, validate_only=request.validate_only)
    response = await services.controller.incremental_alter_configs(
        asked, controller_context(context)
    )
    response.responses += answers
    return response


def _key(resource: AlterConfigsResource) -> Resource:
    return resource.resource_type, resource.resource_name


def _changes(resource: AlterConfigsResource) -> Changes:
    return {config.name: (config.config_operation, config.value) for config in resource.configs}


def _answer(
    resource: AlterConfigsResource, refusal: ControllerError | None = None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=Errors.NONE if refusal is None else refusal.error,
        error_message=None if refusal is None else refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
