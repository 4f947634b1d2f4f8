"""What both requests that alter settings have in common: a broker judges each resource, and passes
on to the controller what it neither refuses nor does by itself.

A resource is taken or refused alone, but none may be named twice. The answers have the order of the
request.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from kaa.controller.configs import AlteredResource
from kaa.controller.result import ControllerError
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import mapped
from kaa.model.turns import Turns, in_turns
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kaa.controller.image import Resource
    from kaa.serving.services import NodeServices

R = TypeVar("R", bound=AlteredResource)
A = TypeVar("A", bound=AlteredResource)


async def alter_each(
    resources: Sequence[R],
    alter_here: Callable[[R], Awaitable[bool]],
    answer_type: Callable[..., A],
    pass_on: Callable[[list[R]], Awaitable[list[A]]],
) -> list[A]:
    """One answer for each resource.

    `alter_here` does what this node does by itself: True if the controller has nothing to do with
    the resource. It raises ControllerError if that is refused.
    """
    named = await in_turns(mapped(key_of, resources))
    counts = Counter(named)
    answers: dict[Resource, A] = {}
    passed_on = []
    turns = Turns(RECORDS_PER_PIECE)
    for resource, key in zip(resources, named, strict=True):
        await turns.next()
        try:
            if counts[key] > 1:
                raise ControllerError(Errors.INVALID_REQUEST, "the resource appears twice")
            if await alter_here(resource):
                answers[key] = answer_for(answer_type, resource)
            else:
                passed_on.append(resource)
        except ControllerError as refusal:
            answers[key] = answer_for(answer_type, resource, refusal)
    if passed_on:
        for answer in await pass_on(passed_on):
            await turns.next()
            answers[key_of(answer)] = answer
    return [answers[key] for key in named]


async def judged(services: NodeServices, judge: Callable[[], None], setting_count: int) -> None:
    """Has the settings of a broker judged as a whole; a thread does it if they are many.
    ControllerError if they are refused.
    """
    if setting_count > RECORDS_PER_PIECE:
        await services.loop.run_in_executor(services.batch_work, judge)
    else:
        judge()


def answer_for(
    answer_type: Callable[..., A],
    resource: AlteredResource,
    refusal: ControllerError | None = None,
) -> A:
    return answer_type(
        error_code=Errors.NONE if refusal is None else refusal.error,
        error_message=None if refusal is None else refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def key_of(resource: AlteredResource) -> Resource:
    return resource.resource_type, resource.resource_name


def unknown_kind(kind: int) -> ControllerError:
    return ControllerError(Errors.INVALID_REQUEST, f"{kind} is not a known type of resource")
