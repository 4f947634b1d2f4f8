from __future__ import annotations

import asyncio
import inspect
from typing import Any

from kaa.controller.port import ControllerPort
from kaa.controller.state import RequestContext
from kaa.wire.schema import Request


class Recorder(ControllerPort):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def submit(self, request: Request, context: RequestContext) -> Any:
        self.requests.append(request)
        return context


def test_every_method_submits_its_request() -> None:
    port = Recorder()
    context = RequestContext(3)
    methods = [
        method
        for name, method in inspect.getmembers(port, inspect.iscoroutinefunction)
        if name != "submit"
    ]
    assert len(methods) == 17

    async def scenario() -> None:
        for method in methods:
            marker = object()
            assert await method(marker, context) is context
            assert port.requests[-1] is marker

    asyncio.run(scenario())
