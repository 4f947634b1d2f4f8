from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kaa.broker.lifecycle import controllers
from kaa.broker.lifecycle.controllers import ControllerRegistration
from kaa.controller.feature_table import CONTROLLER_REGISTRATION, METADATA_VERSION
from kaa.controller.image import ClusterImage
from kaa.model.nodes import Endpoint
from kaa.wire.errors import Errors
from kaa.wire.messages.k70_controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from kaa.wire.messages.metadata_cluster import (
    ControllerEndpoint,
    FeatureLevelRecord,
    RegisterControllerRecord,
)
from kaa.wire.primitives import Uuid

ID = 3
OWN, OTHER, THIRD = (Uuid(letter * 16) for letter in (b"o", b"x", b"t"))


class Bench:
    """A registration and the metadata that it follows."""

    def __init__(self, *errors: Errors | Exception) -> None:
        self.image = ClusterImage()
        self.errors = list(errors)
        self.requests: list[ControllerRegistrationRequest] = []
        self.reports: list[str] = []
        self._was_asked = asyncio.Event()
        endpoints = [Endpoint("CONTROLLER", "here", 1)]
        port: Any = self
        self.registration = ControllerRegistration(
            ID, port, endpoints, Random(1), self.reports.append
        )

    async def submit(self, request: Any, context: Any) -> Any:
        del context
        self.requests.append(request)
        self._was_asked.set()
        error = self.errors.pop(0) if self.errors else Errors.NONE
        if isinstance(error, Exception):
            raise error
        if error is Errors.NONE:
            self.registered(request.incarnation_id, "here")
        return ControllerRegistrationResponse(error_code=error)

    def registered(self, incarnation_id: Uuid, host: str) -> None:
        points = [ControllerEndpoint(name="CONTROLLER", host=host, port=1, security_protocol=0)]
        self.replay(
            RegisterControllerRecord(
                controller_id=ID, incarnation_id=incarnation_id, end_points=points, features=[]
            )
        )

    def finalise(self, level: int) -> None:
        self.replay(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level))

    def replay(self, record: Any) -> None:
        self.image.replay(record)
        self.registration.follow(self.image, self.image.take_delta())

    async def asked(self, count: int) -> None:
        """Waits for this many requests."""
        async with asyncio.timeout(10):
            while len(self.requests) < count:
                self._was_asked.clear()
                await self._was_asked.wait()

    def run(self, story: Callable[[], Any]) -> None:
        async def main() -> None:
            async with asyncio.TaskGroup() as tasks:
                self.registration.begin(tasks, OWN)
                await story()
                self.registration.stop()

        asyncio.run(main())


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "REPLACED_CONTROLLER_PAUSE_MS", 1)
    monkeypatch.setattr(controllers, "REPLACED_CONTROLLER_PAUSE_MS_MAX", 2)


def test_it_registers_when_the_metadata_has_registrations() -> None:
    bench = Bench(Errors.UNSUPPORTED_VERSION)
    bench.finalise(CONTROLLER_REGISTRATION - 1)

    async def story() -> None:
        await bench.asked(1)
        await asyncio.sleep(0.01)
        bench.finalise(CONTROLLER_REGISTRATION)
        await bench.asked(2)
        assert bench.image.controllers[ID].incarnation_id == OWN
        await asyncio.sleep(0.01)

    bench.image.replay(
        RegisterControllerRecord(controller_id=ID, incarnation_id=OTHER, end_points=[], features=[])
    )
    bench.run(story)
    assert len(bench.requests) == 2
    # Its own former life is nothing to talk of.
    assert bench.reports == []


def test_refusals_are_told_once_and_tried_again() -> None:
    bench = Bench(Errors.REQUEST_TIMED_OUT, Errors.REQUEST_TIMED_OUT, Errors.UNKNOWN_SERVER_ERROR)

    async def story() -> None:
        bench.finalise(CONTROLLER_REGISTRATION)
        await bench.asked(4)

    bench.run(story)
    assert [report.partition(":")[0] for report in bench.reports] == [
        "this controller is not registered yet",
        "the registration of this controller was refused",
    ]


def test_another_process_in_its_place_is_named_and_replaced_in_turn() -> None:
    bench = Bench()

    async def story() -> None:
        bench.finalise(CONTROLLER_REGISTRATION)
        for number, incarnation in enumerate((OTHER, OTHER, THIRD), 1):
            await bench.asked(number)
            # Its own answer first.
            await asyncio.sleep(0.01)
            bench.registered(incarnation, "there")
        await bench.asked(4)

    bench.run(story)
    assert {request.incarnation_id for request in bench.requests} == {OWN}
    # Once for each of the others.
    replaced = (
        "another process runs as controller 3, at there:1: stop one of the two, since both vote; "
        "if its directories are a copy of these, empty them and format them again, with a node.id "
        "of its own"
    )
    assert bench.reports == [replaced, replaced]


def test_a_request_that_fails_unexpectedly_is_reported_once_and_sent_again() -> None:
    bench = Bench(ValueError("odd"), ValueError("odd"))

    async def story() -> None:
        await bench.asked(3)

    bench.run(story)
    assert bench.image.controllers[ID].incarnation_id == OWN
    assert [text for text in bench.reports if "odd" in text] == [
        "a request to the controller failed: ValueError('odd')"
    ]
