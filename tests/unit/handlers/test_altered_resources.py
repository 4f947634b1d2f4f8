"""How the answers for altered resources are put together."""

from __future__ import annotations

import asyncio

from kaa.controller.result import ControllerError
from kaa.handlers.altered_resources import alter_each, unknown_kind
from kaa.model.kinds import ResourceType
from kaa.wire.errors import Errors
from kaa.wire.messages.k33_alter_configs import AlterConfigsResource, AlterConfigsResourceResponse


def test_answers_have_the_order_of_the_request() -> None:
    names = ["passed", "twice", "here", "refused", "twice"]
    asked = [
        AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=name) for name in names
    ]
    passed_on: list[str] = []

    def is_done(resource: AlterConfigsResource) -> bool:
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

    answers = asyncio.run(alter_each(asked, is_done, AlterConfigsResourceResponse, pass_on))
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

    def refuse(_: AlterConfigsResource) -> bool:
        raise ControllerError(Errors.INVALID_CONFIG, "no")

    asked = [AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="t")]
    (answer,) = asyncio.run(alter_each(asked, refuse, AlterConfigsResourceResponse, pass_on))
    assert (answer.error_code, answer.error_message) == (Errors.INVALID_CONFIG, "no")
