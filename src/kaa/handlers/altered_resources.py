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
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kaa.controller.image import Resource

R = TypeVar("R", bound=AlteredResource)
A = TypeVar("A", bound=AlteredResource)


async def alter_each(
    resources: Sequence[R],
    is_done: Callable[[R], bool],
    answer_type: Callable[..., A],
    pass_on: Callable[[list[R]], Awaitable[list[A]]],
) -> list[A]:
    """One answer for each resource.

    `is_done` says whether the controller has nothing to do with it, and raises ControllerError if
    it is refused.
    """
    named = [key_of(resource) for resource in resources]
    counts = Counter(named)
    answers: dict[Resource, A] = {}
    passed_on = []
    for resource, key in zip(resources, named, strict=True):
        try:
            if counts[key] > 1:
                raise ControllerError(Errors.INVALID_REQUEST, "the resource appears twice")
            if is_done(resource):
                answers[key] = answer_for(answer_type, resource)
            else:
                passed_on.append(resource)
        except ControllerError as refusal:
            answers[key] = answer_for(answer_type, resource, refusal)
    if passed_on:
        answers |= {key_of(answer): answer for answer in await pass_on(passed_on)}
    return [answers[key] for key in named]


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
    return ControllerError(Errors.INVALID_REQUEST, f"there are no resources {kind}")
