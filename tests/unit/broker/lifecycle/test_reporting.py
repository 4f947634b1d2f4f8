from __future__ import annotations

import asyncio
from typing import Any

from kaa.broker.lifecycle.reporting import ReportingPort
from kaa.controller.port import ControllerPort, ControllerRequestContext
from kaa.wire.errors import Errors
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class Odd(ControllerPort):
    """Fails with what it is given, or answers where that is None."""

    def __init__(self, *failures: Exception | None) -> None:
        self._failures = list(failures)

    async def submit(self, request: Any, context: ControllerRequestContext) -> Any:
        failure = self._failures.pop(0)
        if failure is not None:
            raise failure
        return BrokerHeartbeatResponse(is_caught_up=True)


def test_what_nobody_expected_is_an_answer_and_is_reported_once() -> None:
    async def main() -> None:
        reports: list[str] = []
        failures = (ValueError("a"), ValueError("a"), KeyError("b"), None, KeyError("b"))
        port = ReportingPort(Odd(*failures), reports.append)
        errors = []
        for _ in failures:
            request = BrokerHeartbeatRequest(
                broker_id=1,
                broker_epoch=1,
                current_metadata_offset=1,
                want_fence=False,
                want_shut_down=False,
            )
            errors.append((await port.submit(request, ControllerRequestContext(1))).error_code)
        unknown = Errors.UNKNOWN_SERVER_ERROR
        assert errors == [unknown, unknown, unknown, Errors.NONE, unknown]
        assert reports == [
            "a request to the controller failed: ValueError('a')",
            "a request to the controller failed: KeyError('b')",
            "a request to the controller failed: KeyError('b')",
        ]

    asyncio.run(main())
