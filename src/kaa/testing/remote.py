"""Rules and time of a node in a child process, as the test has them.

Two pipes lead to the child (`process_child`): commands go down, events come up, both as pickled
tuples between this program and itself.

A command is `(number, verb, arguments)`, and each is answered by the event `done`.

| command | meaning |
|---|---|
| `begin` | the first of all: settings, rules, caps and time, before the node starts |

| event | meaning |
|---|---|
| `ready` | the node serves at this address |
| `done` | the command of this number was carried out, or why not |
| `acted` | a rule acted |
| `saw` | a rule that observes saw a request |
| `ask` | a rule wants its function to answer a request; the command `answered` does |

Events come up in the order in which they happened, and before the answer to a command that was
given later. So to know what a rule did, one sends a command that does nothing, and when it
is answered everything is known that happened before.

Functions of a test run on the thread that reads the events.
"""

from __future__ import annotations

import itertools
import logging
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa import limits
from kaa.testing.clock import Clock
from kaa.testing.faults import Faults
from kaa.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaa.testing.faults import Fault, Verb
    from kaa.wire.registry import ApiKey

_LOGGER: Final = logging.getLogger("kaa.testing")


class Rule(NamedTuple):
    """A rule as it travels: its number, which requests it is about, what it does, how often."""

    number: int
    on: dict[str, Any]
    verb: Verb
    times: int | None


class Control:
    """The two pipes of one child, from its start to its end."""

    def __init__(self, happened: Callable[[tuple[Any, ...]], None]) -> None:
        # Brokers inside the process of a test need not load it.
        from multiprocessing.connection import Pipe

        self._child_commands, self._commands = Pipe(duplex=False)
        self._events, self._child_events = Pipe(duplex=False)
        self._happened = happened
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        # The address at which the node serves, or why it does not.
        self.ready: Future[str] = Future()
        self._reader = threading.Thread(target=self._read, name="kaa-testing-events", daemon=True)

    @property
    def descriptors(self) -> tuple[int, int]:
        """The child's ends: where it reads commands, and where it writes events."""
        return self._child_commands.fileno(), self._child_events.fileno()

    def start(self) -> None:
        """The child has its ends."""
        self._child_commands.close()
        self._child_events.close()
        self._reader.start()

    def send(self, *command: Any) -> None:
        """Sends a command without waiting for its end."""
        with self._lock:
            self._commands.send(command)

    def call(self, verb: str, *arguments: Any) -> Any:
        """Has something done on the loop of the node, and waits for it."""
        done: Future[Any] = Future()
        number = next(self._numbers)
        self._waiting[number] = done
        try:
            self.send(number, verb, arguments)
            return done.result(limits.TESTING_ANSWER_SECONDS_MAX)
        except OSError as error:
            raise RuntimeError("the broker is not running") from error
        finally:
            self._waiting.pop(number, None)

    @property
    def is_reader(self) -> bool:
        """Whether this is the thread that reads, which cannot wait for itself."""
        return threading.current_thread() is self._reader

    def close(self) -> None:
        """The child has ended."""
        self._reader.join(limits.TESTING_STOP_SECONDS_MAX)
        self._commands.close()
        self._events.close()

    def _read(self) -> None:
        while True:
            try:
                event = self._events.recv()
            except (EOFError, OSError):
                break
            if event[0] == "ready":
                self.ready.set_result(event[1])
            elif event[0] == "done":
                self._done(*event[1:])
            else:
                self._happened(event)
        ended = RuntimeError("the broker is not running")
        for waiting in (self.ready, *tuple(self._waiting.values())):
            if not waiting.done():
                waiting.set_exception(ended)

    def _done(self, number: int, problem: str | None, value: Any) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None and problem is None:
            waiting.set_result(value)
        elif waiting is not None:
            waiting.set_exception(RuntimeError(problem))


class RemoteFaults(Faults):
    """The rules of a node in another process; they outlive it, for the next one."""

    def __init__(self) -> None:
        super().__init__()
        self._control: Control | None = None
        self._numbers = itertools.count(1)
        self._by_number: dict[int, Fault] = {}

    def attach(self, control: Control | None) -> None:
        """Speaks with the node through these pipes from now on, or with none."""
        self._control = control

    def in_force(self) -> tuple[list[Rule], dict[ApiKey, int]]:
        """What a node that starts now has to know: rules with what is left of them, and caps."""
        rules = [_rule(number, fault) for number, fault in self._by_number.items()]
        return rules, self._caps

    def add(self, fault: Fault) -> Fault:
        number = next(self._numbers)
        self._by_number[number] = fault
        self._call("add", _rule(number, fault))
        return fault

    def remove(self, fault: Fault) -> None:
        for number, known in tuple(self._by_number.items()):
            if known is fault:
                self._call("remove", number)
                del self._by_number[number]

    def clear(self) -> None:
        self._call("clear")
        self._by_number.clear()

    def catch_up(self) -> None:
        self._call("nothing")

    def requests(self) -> list[str]:
        return list(self._call("requests") or ())

    def cap(self, versions: Mapping[ApiKey, int]) -> None:
        self._caps = dict(versions)
        self._call("cap", self._caps)

    def _call(self, verb: str, *arguments: Any) -> Any:
        if self._control is not None and not self._control.is_reader:
            return self._control.call(verb, *arguments)
        return None

    # --- on the thread that reads

    def happened(self, event: tuple[Any, ...]) -> None:
        kind, number, *rest = event
        fault = self._by_number.get(number)
        if kind == "ask":
            self._answer(fault, *rest)
        elif fault is not None and kind == "acted":
            fault.acted()
        elif fault is not None:
            version, data = rest
            try:
                fault.saw(api(fault.on.key).request.decode(data, version), version)
            except Exception:
                _LOGGER.exception("a function that observes failed")

    def _answer(self, fault: Fault | None, asked: int, version: int, data: bytes) -> None:
        problem: str | None = None
        answer: bytes | None = None
        try:
            if fault is not None and fault.function is not None:
                expected = api(fault.on.key).response
                given = fault.function(api(fault.on.key).request.decode(data, version))
                if isinstance(given, expected):
                    answer = given.encode(version)
                elif given is not None:
                    problem = f"{given!r} is not of type {expected.__name__}"
        except Exception as error:  # noqa: BLE001  It ends the client's connection, and is reported.
            problem = f"{type(error).__name__}: {error}"
        if self._control is not None:
            self._control.send(0, "answered", (asked, problem, answer))


def _rule(number: int, fault: Fault) -> Rule:
    on = fault.on
    return Rule(
        number,
        {
            "key": on.key,
            "topic": on.topic,
            "partition": on.partition,
            "client_id": on.client_id,
            "group_id": on.group_id,
        },
        fault.verb,
        fault.left,
    )


class RemoteClock(Clock):
    """The time of a node in another process: what moves here moves there."""

    __slots__ = ("_control",)

    def __init__(self) -> None:
        super().__init__()
        self._control: Control | None = None

    def attach(self, control: Control | None) -> None:
        self._control = control

    def shift(self, shift_ns: int) -> None:
        super().shift(shift_ns)
        if self._control is not None:
            self._control.call("shift", shift_ns)
