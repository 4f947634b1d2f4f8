"""The verbs, on handlers that answer in every way in which one may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kaa.handlers.context import response_of
from kaa.net.pending import Hold, Pending
from kaa.testing.fault_actions import ACTIONS, then
from kaa.testing.faults import Fault, Faults, On, Verb
from kaa.wire.errors import Errors
from kaa.wire.frames import EncodedResponse
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kaa.wire.registry import ApiKey

REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
ANSWER = HeartbeatResponse(throttle_time_ms=7)


async def _soon() -> HeartbeatResponse:
    await asyncio.sleep(0)
    return ANSWER


def _parked() -> Pending[HeartbeatResponse]:
    loop = asyncio.get_running_loop()
    known: asyncio.Future[HeartbeatResponse] = loop.create_future()
    loop.call_soon(known.set_result, ANSWER)
    return Pending(known, Hold.NOTHING)


async def _parked_soon() -> Pending[HeartbeatResponse]:
    await asyncio.sleep(0)
    return _parked()


KINDS: dict[str, Callable[[], Any]] = {
    "response": lambda: ANSWER,
    "pending": lambda: Pending(_soon()),
    "parked": _parked,
    "keeps frame": lambda: Pending(_soon(), Hold.FRAME),
    "keeps frame, then parked": lambda: Pending(_parked_soon(), Hold.FRAME),
}


class Scene:
    """One rule, one request, and a handler."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.handled = 0
        self.closed: list[str] = []
        connection = SimpleNamespace(close=self.closed.append)
        self.context: Any = SimpleNamespace(api_version=4, client_id="c", connection=connection)

    def handle(self, services: Any, request: Any, context: Any) -> Any:
        self.handled += 1
        return KINDS[self.kind]()

    def act(self, verb: Verb, function: Callable[[Any], Any] | None = None) -> tuple[Any, Fault]:
        faults = Faults()
        fault = Fault(faults, On(faults, ApiKey.HEARTBEAT), verb, 1, function)

        async def run() -> Any:
            return await response_of(
                ACTIONS[verb.name](fault, self.handle, None, REQUEST, self.context)
            )

        return asyncio.run(run()), fault


@pytest.mark.parametrize("kind", KINDS)
def test_delay(kind: str) -> None:
    scene = Scene(kind)
    answer, fault = scene.act(Verb("delay", seconds=0.001))
    assert answer is ANSWER
    assert (fault.count, fault.has_ended, scene.handled) == (1, True, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [False, True])
def test_drop(kind: str, after: bool) -> None:
    scene = Scene(kind)
    answer, fault = scene.act(Verb("drop", after=after))
    assert answer is None
    assert scene.closed == ["dropped by a test"]
    assert (fault.count, scene.handled) == (1, int(after))


def test_fail() -> None:
    scene = Scene("response")
    answer, fault = scene.act(Verb("fail", error=Errors.ILLEGAL_GENERATION))
    assert answer.error_code == Errors.ILLEGAL_GENERATION
    assert (fault.count, scene.handled) == (1, 0)


def test_an_answer_that_was_encoded_before_can_be_changed() -> None:
    codec = HeartbeatResponse.codec(4)
    encoded = EncodedResponse(codec, codec.encode(ANSWER))

    def change(answer: Any) -> Any:
        answer.error_code = Errors.ILLEGAL_GENERATION
        return answer

    changed: Any = then(encoded, change)
    assert (changed.error_code, changed.throttle_time_ms) == (Errors.ILLEGAL_GENERATION, 7)
    assert encoded.decoded() == ANSWER


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_that_leaves_it_to_the_node(kind: str) -> None:
    scene = Scene(kind)
    asked: list[Any] = []
    answer, fault = scene.act(Verb("answer"), asked.append)
    assert answer is ANSWER
    assert (fault.count, scene.handled) == (0, 1)
    assert asked == [REQUEST]
    assert asked[0] is not REQUEST


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_that_answers_later(kind: str) -> None:
    async def later(given: HeartbeatResponse | None) -> HeartbeatResponse | None:
        await asyncio.sleep(0)
        return given

    own = HeartbeatResponse(throttle_time_ms=9)
    scene = Scene(kind)
    answer, fault = scene.act(Verb("answer"), lambda _: later(own))
    assert answer is own
    assert (fault.count, scene.handled) == (1, 0)
    answer, fault = scene.act(Verb("answer"), lambda _: later(None))
    assert answer is ANSWER
    assert (fault.count, scene.handled) == (0, 1)


def test_a_function_that_answers_something_else() -> None:
    with pytest.raises(TypeError, match="'no' is not of type HeartbeatResponse"):
        Scene("response").act(Verb("answer"), lambda _: "no")
