"""Sends the directories of replicas to the controller, as the machine of it says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kaa.controller.feature_table import DIRECTORY_ASSIGNMENT, METADATA_VERSION
from kaa.controller.port import ControllerRequestContext
from kaa.limits import DUTY_RETRY_SECONDS
from kaa.replication.directory_assignments import DirectoryAssignments

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.controller.port import ControllerPort
    from kaa.serving.view import NodeView
    from kaa.wire.primitives import Uuid

_VERSION: Final = 0


class AssignmentReporter:
    """Takes reports at any time; `run` sends them while the broker is registered."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        self._machine = DirectoryAssignments()
        self._news = asyncio.Event()

    def note(self, topic_id: Uuid, number: int, directory: Uuid | None) -> None:
        """The directory of a replica is not what the metadata has; None: now it is."""
        if directory is not None:
            self._machine.note(topic_id, number, directory)
            self._news.set()
        elif (topic_id, number) in self._machine.wanted:
            self._machine.forget(topic_id, number)

    async def run(self, controller: ControllerPort, broker_epoch: Callable[[], int]) -> None:
        view, machine = self._view, self._machine
        while True:
            self._news.clear()
            now_ms = view.clock.monotonic_ms()
            wait_ms = machine.wait_ms(now_ms)
            if view.image.features.get(METADATA_VERSION, 0) < DIRECTORY_ASSIGNMENT:
                # It may be raised at any time, and then all of it is to be reported.
                await asyncio.sleep(DUTY_RETRY_SECONDS)
            elif wait_ms is None:
                await self._news.wait()
            elif wait_ms:
                await asyncio.sleep(wait_ms / 1000)
            else:
                request = machine.next_request(view.node_id, broker_epoch(), now_ms)
                assert request is not None
                context = ControllerRequestContext(_VERSION)
                try:
                    response = await controller.submit(request, context)
                except Exception:
                    machine.failed(view.clock.monotonic_ms())
                    raise
                machine.answered(response, view.clock.monotonic_ms())
