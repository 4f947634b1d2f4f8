"""The pipes to a child, with this process at both ends of them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest

from kaa.testing.faults import Fault, On, Verb
from kaa.testing.remote import Control, RemoteClock, RemoteFaults
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kaa.wire.registry import ApiKey

REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Wire:
    """A child that is played by the test: it answers every command at once."""

    def __init__(self) -> None:
        self.faults = RemoteFaults()
        self.control = Control(self.faults.happened)
        commands, events = self.control.descriptors
        self.commands: Connection[Any, Any] = Connection(os.dup(commands), writable=False)
        self.events: Connection[Any, Any] = Connection(os.dup(events), readable=False)
        self.control.start()

    def tell(self, *event: Any) -> None:
        self.events.send(event)

    def end(self) -> None:
        self.commands.close()
        self.events.close()
        self.control.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    try:
        yield made
    finally:
        made.end()


def add(faults: RemoteFaults, verb: str, function: Any = None, times: int | None = None) -> Fault:
    on = On(faults, ApiKey.HEARTBEAT, group_id="g")
    return faults.add(Fault(faults, on, Verb(verb), times, function))


def test_rules_are_kept_for_a_child_that_comes_later(wire: Wire) -> None:
    faults = wire.faults
    first = add(faults, "observe", times=3)
    second = add(faults, "drop")
    faults.cap({ApiKey.FETCH: 11})
    first.acted()
    rules, caps = faults.in_force()
    assert [(rule.number, rule.verb.name, rule.times) for rule in rules] == [
        (1, "observe", 2),
        (2, "drop", None),
    ]
    assert rules[0].on["group_id"] == "g"
    assert caps == {ApiKey.FETCH: 11}
    second.remove()
    faults.clear()
    assert faults.in_force()[0] == []
    assert faults.requests() == []


def test_commands_are_answered_or_refused(wire: Wire) -> None:
    wire.tell("ready", "127.0.0.1:1")
    assert wire.control.ready.result(30) == "127.0.0.1:1"
    wire.faults.attach(wire.control)
    replies = iter([(None, ["a"]), ("ValueError: no", None)])

    def reply() -> None:
        number, verb, _ = wire.commands.recv()
        wire.tell("done", number, *next(replies))
        assert verb in {"requests", "nothing"}

    for expected in (["a"], None):
        answering = threading.Thread(target=reply)
        answering.start()
        if expected is not None:
            assert wire.faults.requests() == expected
        else:
            with pytest.raises(RuntimeError, match="ValueError: no"):
                wire.faults.catch_up()
        answering.join()


def test_what_happens_in_the_child_reaches_the_rules(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    seen = threading.Event()
    requests: list[Any] = []

    def look(request: Any) -> None:
        requests.append(request)
        if len(requests) == 1:
            raise ValueError("a test that is wrong")
        seen.set()

    rule = add(wire.faults, "observe", look)
    data = bytes(REQUEST.encode(4))
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            wire.tell("saw", 1, 4, data)
        # Of rules that are gone nobody wants to hear.
        wire.tell("acted", 99)
        assert seen.wait(30)
    assert requests == [REQUEST, REQUEST]
    assert rule.count == 2
    assert "a function that observes failed" in caplog.text


@pytest.mark.parametrize(
    ("function", "problem", "is_answered"),
    [
        (lambda _: HeartbeatResponse(throttle_time_ms=9), None, True),
        (lambda _: None, None, False),
        (lambda _: "no", "'no' is not of type HeartbeatResponse", False),
        (lambda _: 1 // 0, "ZeroDivisionError", False),
    ],
)
def test_functions_answer_for_the_child(
    wire: Wire, function: Any, problem: str | None, is_answered: bool
) -> None:
    add(wire.faults, "answer", function)
    wire.faults.attach(wire.control)
    wire.tell("ask", 2, 7, 4, bytes(REQUEST.encode(4)))
    wire.tell("ask", 1, 8, 4, bytes(REQUEST.encode(4)))
    # A rule that is gone leaves it to the node.
    assert wire.commands.recv() == (0, "answered", (7, None, None))
    _, verb, (asked, told, answer) = wire.commands.recv()
    assert (verb, asked, answer is not None) == ("answered", 8, is_answered)
    assert told is None if problem is None else problem in told


def test_a_child_that_ends_leaves_nobody_waiting() -> None:
    wire = Wire()
    wire.faults.attach(wire.control)
    wire.end()
    with pytest.raises(RuntimeError, match="not running"):
        wire.control.ready.result(30)
    with pytest.raises(RuntimeError, match="not running"):
        wire.faults.catch_up()


def test_time_that_moves_here_moves_there(wire: Wire) -> None:
    clock = RemoteClock()
    clock.advance(seconds=1)
    clock.attach(wire.control)
    moved: list[Any] = []

    def reply() -> None:
        number, *rest = wire.commands.recv()
        moved.append(rest)
        wire.tell("done", number, None, None)

    answering = threading.Thread(target=reply)
    answering.start()
    clock.advance(seconds=2)
    answering.join()
    assert moved == [["shift", (2_000_000_000,)]]
    assert clock.shift_ns == 3_000_000_000
    clock.reset()
    assert not clock.is_ahead
