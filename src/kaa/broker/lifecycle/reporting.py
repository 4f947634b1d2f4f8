"""A controller port for those who try again until they succeed: it answers whatever happens.

A request that fails in a way that nobody expected must not end the node that sent it. It counts as
one that the controller has failed to carry out, and is reported when another one did not fail the
same way just before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.port import ControllerPort
from kaa.controller.refusals import error_response
from kaa.model.pieces import finish
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.controller.port import Answer, ControllerRequestContext
    from kaa.wire.schema import Request


class ReportingPort(ControllerPort):
    """Another port, whose failures are UNKNOWN_SERVER_ERROR."""

    def __init__(self, port: ControllerPort, report: Callable[[str], None]) -> None:
        self._port = port
        self._report = report
        self._reported = ""

    async def submit(self, request: Request[Answer], context: ControllerRequestContext) -> Answer:
        try:
            answer = await self._port.submit(request, context)
        except Exception as error:  # noqa: BLE001  Whatever it is, the sender tries again.
            if repr(error) != self._reported:
                self._reported = repr(error)
                self._report(f"a request to the controller failed: {error!r}")
            refusal = error_response(
                request, context.api_version, Errors.UNKNOWN_SERVER_ERROR, None
            )
            return finish(refusal)
        self._reported = ""
        return answer
