"""What the child does with its commands; running ones are in the tests of faults and clock."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from kaa.testing.faults import Verb
from kaa.testing.process_child import Child
from kaa.testing.remote import Rule
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kaa.wire.registry import ApiKey
from tests.support.children import running

REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
ON = {"key": ApiKey.HEARTBEAT, "topic": None, "partition": None, "client_id": None, "group_id": "g"}


class Parent:
    """The other ends of a child's pipes."""

    def __init__(self) -> None:
        commands, self.commands = Pipe(duplex=False)
        self.events, events = Pipe(duplex=False)
        self.child = Child(commands, events)
        self._ends: list[Connection[Any, Any]] = [commands, self.commands, self.events, events]

    def next(self) -> Any:
        assert self.events.poll(30)
        return self.events.recv()

    def close(self) -> None:
        for end in self._ends:
            end.close()


def test_commands_and_what_rules_tell() -> None:
    parent = Parent()
    child = parent.child
    child._do(1, "add", (Rule(7, ON, Verb("observe"), 2),))
    assert parent.next() == ("done", 1, None, None)
    fault = child._rules[7]
    fault.saw(REQUEST, 4)
    kind, number, version, data = parent.next()
    assert (kind, number, version) == ("saw", 7, 4)
    assert HeartbeatRequest.decode(data, 4) == REQUEST
    fault.acted()
    assert parent.next() == ("acted", 7)
    assert fault.has_ended
    child._do(2, "requests", ())
    assert parent.next() == ("done", 2, None, [])
    child._do(3, "remove", (7,))
    child._do(4, "remove", (7,))
    child._do(5, "nothing", ())
    child._do(6, "clear", ())
    assert [parent.next() for _ in range(4)] == [("done", n, None, None) for n in (3, 4, 5, 6)]
    child._do(8, "cap", (None,))
    kind, number, problem, _ = parent.next()
    assert (kind, number) == ("done", 8)
    assert "TypeError" in problem
    parent.close()


def test_questions_are_answered_by_the_process_of_the_test() -> None:
    async def run() -> None:
        parent = Parent()
        child = parent.child
        child._loop = asyncio.get_running_loop()
        for number, (problem, data) in enumerate(
            [
                (None, bytes(HeartbeatResponse(throttle_time_ms=9).encode(4))),
                (None, None),
                ("no", None),
            ],
            1,
        ):
            asking = child._loop.create_task(child.ask(7, ApiKey.HEARTBEAT, 4, REQUEST))
            await asyncio.sleep(0)
            assert parent.next()[:4] == ("ask", 7, number, 4)
            child._do(0, "answered", (number, problem, data))
            if problem is None:
                answer = await asking
                assert (answer is None) == (data is None)
            else:
                await asyncio.wait([asking])
                assert isinstance(asking.exception(), TypeError)
        # Nobody waits any more; a command without a number is not answered.
        child._do(0, "answered", (99, None, None))
        assert not parent.events.poll(0)
        parent.close()

    asyncio.run(run())


def test_a_child_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Also where no kernel sees to it: the pipe of commands ends."""
    commands, ours = Pipe(duplex=False)
    events, theirs = Pipe(duplex=False)
    program = (
        "import sys; from kaa.testing.process_child import main; main(*map(int, sys.argv[1:]))"
    )
    descriptors = (commands.fileno(), theirs.fileno())
    with running(
        [sys.executable, "-c", program, *map(str, descriptors)],
        pass_fds=descriptors,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        commands.close()
        theirs.close()
        listeners = "listeners=PLAINTEXT://127.0.0.1:0"
        ours.send((os.fspath(tmp_path / "data"), [listeners], [], {}, 0, frozenset()))
        assert events.poll(60)
        kind, address = events.recv()
        assert kind == "ready"
        ours.close()
        _, said = process.communicate(timeout=60)
        events.close()
    assert process.returncode == 0
    assert said.splitlines()[0] == f"ready on {address}"
