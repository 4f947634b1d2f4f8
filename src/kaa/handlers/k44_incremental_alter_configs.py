"""IncrementalAlterConfigs, key 44: changes single settings of topics, brokers, loggers, groups and
metrics subscriptions (KIP-339).

A broker judges what it can judge best (`kaa.serving.config_changes`) and passes the rest on to the
controller; the answer has the order of the request. Each resource is taken or refused by itself,
but none may appear twice.

On the controller listener only loggers are dealt with here, and their answers come last.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.controller.configs import Operation, changes_of
from kaa.controller.result import ControllerError
from kaa.handlers.altered_resources import (
    alter_each,
    answer_for,
    judged,
    key_of,
    unknown_kind,
)
from kaa.handlers.forwarding import forward, is_controller_listener
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX, RECORDS_PER_PIECE
from kaa.model.kinds import ResourceType
from kaa.model.turns import Turns, in_turns
from kaa.net.pending import Pending
from kaa.serving.config_changes import alter_loggers, check_broker_changes, check_no_name_twice
from kaa.wire.errors import Errors
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.controller.configs import Changes
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k44_incremental_alter_configs import AlterConfigsResource


def handle(
    services: NodeServices, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Answer[IncrementalAlterConfigsResponse]:
    return Pending(_alter(services, request, context))


async def _alter(
    services: NodeServices, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    if is_controller_listener(services, context):
        return await _controller(services, request, context)

    async def alter_here(resource: AlterConfigsResource) -> bool:
        return await _alter_here(services, resource, validate_only=request.validate_only)

    async def pass_on(resources: list[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        return (await _pass_on(services, request, resources, context)).responses

    return IncrementalAlterConfigsResponse(
        responses=await alter_each(
            request.resources, alter_here, AlterConfigsResourceResponse, pass_on
        )
    )


def _pass_on(
    services: NodeServices,
    request: IncrementalAlterConfigsRequest,
    resources: list[AlterConfigsResource],
    context: RequestContext,
) -> Awaitable[IncrementalAlterConfigsResponse]:
    asked = IncrementalAlterConfigsRequest(resources=resources, validate_only=request.validate_only)
    return forward(services, asked, context)


async def _alter_here(
    services: NodeServices, resource: AlterConfigsResource, *, validate_only: bool
) -> bool:
    """Judges a resource, and alters loggers; True if the controller has nothing to do with it."""
    changes, name = await in_turns(_checked(resource)), resource.resource_name
    match resource.resource_type:
        case ResourceType.BROKER_LOGGER:
            alter_loggers(services.node_id, name, changes, validate_only=validate_only)
            return True
        case ResourceType.BROKER:
            stored = services.image.configs.get(key_of(resource), {})
            judge = partial(
                check_broker_changes, services.config, services.node_id, name, changes, stored
            )
            await judged(services, judge, len(changes))
        case ResourceType.TOPIC | ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            pass
        case unknown:
            raise unknown_kind(unknown)
    return False


async def _controller(
    services: NodeServices, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    answers, passed_on = [], []
    turns = Turns(RECORDS_PER_PIECE)
    for resource in request.resources:
        await turns.next()
        if resource.resource_type != ResourceType.BROKER_LOGGER:
            passed_on.append(resource)
            continue
        try:
            changes = await in_turns(changes_of(resource))
            alter_loggers(
                services.node_id,
                resource.resource_name,
                changes,
                validate_only=request.validate_only,
            )
            answers.append(answer_for(AlterConfigsResourceResponse, resource))
        except ControllerError as refusal:
            answers.append(answer_for(AlterConfigsResourceResponse, resource, refusal))
    response = await _pass_on(services, request, passed_on, context)
    response.responses += answers
    return response


def _checked(resource: AlterConfigsResource) -> Pieces[Changes]:
    """The changes of a resource; ControllerError if any cannot be one."""
    yield from check_no_name_twice(config.name for config in resource.configs)
    changes = yield from changes_of(resource)
    for number, (name, (operation, value)) in enumerate(changes.items(), 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if operation != Operation.DELETE and value is None:
            raise ControllerError(Errors.INVALID_REQUEST, f"{name} has no value")
    return changes
