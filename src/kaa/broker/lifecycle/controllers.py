"""The registration of a controller, for tools that ask it directly (KIP-919).

As in Kafka, a controller registers as soon as the metadata.version has registrations, and again
whenever the metadata shows another incarnation than its own. Nothing but another process with the
same node.id can be the cause of that. Two that run on copies of one directory would both vote, and
take each other's place in the voter set, without a word: so both of them say so here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kaa.broker.lifecycle.reporting import ReportingPort
from kaa.client.backoff import Backoff
from kaa.controller.feature_table import (
    CONTROLLER_REGISTRATION,
    METADATA_VERSION,
    supported_ranges,
)
from kaa.controller.port import ControllerRequestContext
from kaa.limits import (
    CONTROLLER_RETRY_PAUSE_MS,
    CONTROLLER_RETRY_PAUSE_MS_MAX,
    REPLACED_CONTROLLER_PAUSE_MS,
    REPLACED_CONTROLLER_PAUSE_MS_MAX,
)
from kaa.wire.errors import Errors
from kaa.wire.messages.k70_controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.controller.image import ClusterImage, ControllerImage, Delta
    from kaa.controller.port import ControllerPort
    from kaa.model.nodes import Endpoint
    from kaa.model.seams import RandomSource
    from kaa.wire.primitives import Uuid

_VERSION: Final = 0


class ControllerRegistration:
    """Tells the active controller where the controller of this node listens. `follow` subscribes to
    the metadata; from `begin` to `stop` it keeps the controller registered.
    """

    def __init__(
        self,
        node_id: int,
        controller: ControllerPort,
        endpoints: Sequence[Endpoint],
        random: RandomSource,
        report: Callable[[str], None],
    ) -> None:
        self._node_id = node_id
        self._controller = ReportingPort(controller, report)
        self._endpoints = endpoints
        self._random = random
        self._report = report
        self._pauses = Backoff(
            REPLACED_CONTROLLER_PAUSE_MS, REPLACED_CONTROLLER_PAUSE_MS_MAX, random
        )
        self._tasks: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None
        # New in every life.
        self._incarnation_id: Uuid | None = None
        self._is_known = False
        # The metadata is that of an older release, which does without.
        self._is_unsupported = False
        self._last_named: Uuid | None = None

    def begin(self, tasks: asyncio.TaskGroup, incarnation_id: Uuid) -> None:
        self._tasks, self._incarnation_id = tasks, incarnation_id
        self._task = tasks.create_task(self._register())

    def stop(self) -> None:
        self._tasks = None
        if self._task is not None:
            self._task.cancel()

    def follow(self, image: ClusterImage, delta: Delta) -> None:
        """A subscriber of the metadata."""
        if self._node_id in delta.controllers:
            self._look_at(image.controllers.get(self._node_id))
        if self._is_unsupported and image.features[METADATA_VERSION] >= CONTROLLER_REGISTRATION:
            self._is_unsupported = False
            self._begin_again(0)

    def _look_at(self, found: ControllerImage | None) -> None:
        """Another process may have taken the place of this one."""
        if found is None:
            return
        if found.incarnation_id == self._incarnation_id:
            self._is_known = True
        elif self._is_known:
            self._is_known = False
            self._tell_of(found)
            self._begin_again(self._pauses.next_ms())

    def _begin_again(self, pause_ms: float) -> None:
        if self._tasks is not None:
            self._task = self._tasks.create_task(self._register_later(pause_ms))

    async def _register_later(self, pause_ms: float) -> None:
        await asyncio.sleep(pause_ms / 1000)
        await self._register()

    async def _register(self) -> None:
        """Tries until it can."""
        request = self._request()
        backoff = Backoff(CONTROLLER_RETRY_PAUSE_MS, CONTROLLER_RETRY_PAUSE_MS_MAX, self._random)
        reported = Errors.NONE
        while True:
            response = await self._controller.submit(request, ControllerRequestContext(_VERSION))
            error = Errors.of(response.error_code)
            self._is_unsupported = error is Errors.UNSUPPORTED_VERSION
            if error is Errors.NONE or self._is_unsupported:
                return
            if error is not reported:
                reported = error
                self._report(_problem(error))
            await asyncio.sleep(backoff.next_ms() / 1000)

    def _request(self) -> ControllerRegistrationRequest:
        assert self._incarnation_id is not None
        return ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(
                    name=endpoint.listener,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=endpoint.security_protocol,
                )
                for endpoint in self._endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in supported_ranges().items()
            ],
        )

    def _tell_of(self, other: ControllerImage) -> None:
        if other.incarnation_id != self._last_named:
            self._last_named = other.incarnation_id
            self._report(self._replaced_by(other))

    def _replaced_by(self, other: ControllerImage) -> str:
        addresses = ", ".join(f"{each.host}:{each.port}" for each in other.endpoints)
        return (
            f"another process runs as controller {self._node_id}, at {addresses}: stop one of the "
            "two, since both vote; if its directories are a copy of these, empty them and format "
            "them again, with a node.id of its own"
        )


def _problem(error: Errors) -> str:
    if error is Errors.REQUEST_TIMED_OUT:
        return "this controller is not registered yet: no leader of the quorum answers"
    return f"the registration of this controller was refused: {error.message}"
