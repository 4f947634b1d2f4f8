"""How the answers for altered resources are put together."""

from __future__ import annotations

import asyncio

from kaa.controller.result import ControllerError
from kaa.handlers.altered_resources import alter_each, unknown_kind
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.kinds import ResourceType
from kaa.wire.errors import Errors
from kaa.wire.messages.k33_alter_configs import AlterConfigsResource, AlterConfigsResourceResponse


def test_answers_have_the_order_of_the_request() -> None:
    names = ["passed", "twice", "here", "refused", "twice"]
    asked = [
        AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=name) for name in names
    ]
    passed_on: list[str] = []

    async def alter_here(resource: AlterConfigsResource) -> bool:
        if resource.resource_name == "refused":
            raise unknown_kind(99)
        return resource.resource_name == "here"

    async def pass_on(resources: list[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        passed_on.extend(each.resource_name for each in resources)
        return [
            AlterConfigsResourceResponse(
                error_code=Errors.INVALID_CONFIG,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in resources
        ]

    answers = asyncio.run(alter_each(asked, alter_here, AlterConfigsResourceResponse, pass_on))
    assert [answer.resource_name for answer in answers] == names
    assert [answer.error_code for answer in answers] == [
        Errors.INVALID_CONFIG,
        Errors.INVALID_REQUEST,
        Errors.NONE,
        Errors.INVALID_REQUEST,
        Errors.INVALID_REQUEST,
    ]
    assert passed_on == ["passed"]


def test_nothing_is_passed_on_if_nothing_is_left() -> None:
    async def pass_on(_: list[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        raise AssertionError

    async def refuse(_: AlterConfigsResource) -> bool:
        raise ControllerError(Errors.INVALID_CONFIG, "no")

    asked = [AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="t")]
    (answer,) = asyncio.run(alter_each(asked, refuse, AlterConfigsResourceResponse, pass_on))
    assert (answer.error_code, answer.error_message) == (Errors.INVALID_CONFIG, "no")


def test_thousands_of_resources_leave_turns_for_others() -> None:
    count = 5 * RECORDS_PER_PIECE
    asked = [
        AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=str(number))
        for number in range(count)
    ]
    judged = 0

    async def alter_here(_: AlterConfigsResource) -> bool:
        nonlocal judged
        judged += 1
        return True

    async def pass_on(_: list[AlterConfigsResource]) -> list[AlterConfigsResourceResponse]:
        raise AssertionError

    async def look(seen: set[int]) -> None:
        while judged < count:
            seen.add(judged)
            await asyncio.sleep(0)

    async def main() -> set[int]:
        seen: set[int] = set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(look(seen))
            await alter_each(asked, alter_here, AlterConfigsResourceResponse, pass_on)
        return seen

    assert asyncio.run(main()) >= {number * RECORDS_PER_PIECE for number in range(1, 5)}
