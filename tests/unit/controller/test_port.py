from __future__ import annotations

import asyncio
from typing import TypeVar, cast

import pytest

from kaa.controller.port import ControllerPort, ControllerRequestContext
from kaa.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from kaa.wire.schema import Request

Answer = TypeVar("Answer")


class Echo(ControllerPort):
    async def submit(self, request: Request[Answer], context: ControllerRequestContext) -> Answer:
        assert isinstance(request, CreateTopicsRequest)
        assert context.api_version == 7
        return cast("Answer", CreateTopicsResponse(throttle_time_ms=len(request.topics)))


def test_the_answer_has_the_type_of_the_request() -> None:
    async def scenario() -> CreateTopicsResponse:
        # The type checker knows what comes back; nothing here says it.
        return await Echo().submit(CreateTopicsRequest(), ControllerRequestContext(7))

    assert asyncio.run(scenario()).throttle_time_ms == 0


def test_a_port_has_to_submit() -> None:
    with pytest.raises(TypeError, match="submit"):
        ControllerPort()  # type: ignore[abstract]
