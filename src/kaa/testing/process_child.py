"""The program of a child process: a node with real files, whose rules and time the test sets.

`remote` has the language of the two pipes. Commands are read by a thread and carried out on the
loop of the node. The process ends when it is asked to (SIGTERM), or when the pipe of commands does:
then the process that started it is gone.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from kaa.broker import Broker, NodeError, running
from kaa.config.definition import InvalidConfigError
from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.testing.clock import Clock
from kaa.testing.cuts import CutLoop
from kaa.testing.deliveries import held
from kaa.testing.faults import Fault, Faults, On
from kaa.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.testing.deliveries import Handed
    from kaa.testing.remote import Rule
    from kaa.wire.registry import ApiKey


class Child:
    """The node of a child process, with the two pipes to its test. `run` it once; it returns when
    the node has stopped.
    """

    def __init__(self, commands: Connection[Any, Any], events: Connection[Any, Any]) -> None:
        self._commands = commands
        self._events = events
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.clock = Clock()
        self.faults = Faults()
        self._rules: dict[int, Fault] = {}
        self._broker: Broker | None = None
        # Ports that are out of reach from the start.
        self._unreachable: frozenset[int] = frozenset()
        self._asked_numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[tuple[str | None, bytes | None]]] = {}

    def tell(self, *event: Any) -> None:
        """Sends an event to the test; any thread may."""
        with self._lock:
            self._events.send(event)

    def run(self) -> None:
        """Starts as the first command says, and serves."""
        folder, overrides, rules, caps, shift_ns, ports = self._commands.recv()
        self._unreachable = ports
        self.clock.shift(shift_ns)
        for rule in rules:
            self._add(rule)
        self.faults.cap(caps)
        settings = development_settings(folder, overrides=overrides)
        loaded = load_broker_config(settings)
        for warning in loaded.warnings:
            say(f"warning: {warning}")
        broker = Broker(loaded.config, report=say, formats_empty=True, clock=self.clock)
        with asyncio.Runner(loop_factory=self.clock.new_loop) as runner:
            runner.run(self._serve(broker))

    async def _serve(self, broker: Broker) -> None:
        self._loop = asyncio.get_running_loop()
        self._cut(self._unreachable)
        stop = asyncio.Event()

        def asked_to_stop() -> None:
            stop.set()
            broker.interrupt_start()

        self._loop.add_signal_handler(signal.SIGTERM, asked_to_stop)
        # From now on it notices the end of the other process.
        threading.Thread(target=self._read, daemon=True).start()
        async with running(broker):
            self._broker = broker
            self.faults.install(broker)
            say(f"ready on {broker.bootstrap_servers}")
            self.tell("ready", broker.bootstrap_servers)
            await stop.wait()

    # --- commands

    def _read(self) -> None:
        assert self._loop is not None
        while True:
            try:
                number, verb, arguments = self._commands.recv()
            except (EOFError, OSError):
                os.kill(os.getpid(), signal.SIGTERM)
                return
            if verb == "shift":
                # The clock goes to the loop by itself.
                self.clock.shift(*arguments)
                self.tell("done", number, None, None)
            else:
                self._loop.call_soon_threadsafe(self._do, number, verb, arguments)

    def _do(self, number: int, verb: str, arguments: tuple[Any, ...]) -> None:
        try:
            value = getattr(self, f"_{verb}")(*arguments)
        except Exception as error:  # noqa: BLE001  The process that gave the command gets it.
            self.tell("done", number, f"{type(error).__name__}: {error}", None)
        else:
            if number:
                self.tell("done", number, None, value)

    def _add(self, rule: Rule) -> None:
        on = On(self.faults, **rule.on)
        self._rules[rule.number] = self.faults.add(_TellingFault(self, on, rule))

    def _remove(self, number: int) -> None:
        fault = self._rules.pop(number, None)
        if fault is not None:
            fault.remove()

    def _clear(self) -> None:
        self._rules.clear()
        self.faults.clear()

    def _cap(self, versions: Mapping[ApiKey, int]) -> None:
        self.faults.cap(versions)

    def _cut(self, ports: frozenset[int]) -> None:
        assert isinstance(self._loop, CutLoop)
        self._loop.cut(ports)

    def _active_epoch(self) -> int | None:
        return None if self._broker is None else active_epoch(self._broker)

    def _requests(self) -> list[str]:
        return self.faults.requests()

    def _delivered(self, group_id: str) -> list[Handed]:
        return self.faults.deliveries.of_group(group_id)

    def _held(self, group_id: str) -> list[Handed]:
        return [] if self._broker is None else held(self._broker, group_id)

    def _nothing(self) -> None:
        """The answer alone is wanted."""

    def _answered(self, asked: int, problem: str | None, data: bytes | None) -> None:
        waiting = self._asked.pop(asked, None)
        if waiting is not None and not waiting.done():
            waiting.set_result((problem, data))

    # --- questions

    async def ask(self, number: int, key: ApiKey, version: int, request: Any) -> Any:
        """What the function of a rule, in the process of the test, answers."""
        assert self._loop is not None
        asked = next(self._asked_numbers)
        waiting = self._asked[asked] = self._loop.create_future()
        self.tell("ask", number, asked, version, bytes(request.encode(version)))
        problem, data = await waiting
        if problem is not None:
            raise TypeError(problem)
        return None if data is None else api(key).response.decode(data, version)


class _TellingFault(Fault):
    """A rule whose twin in the process of the test keeps count."""

    def __init__(self, child: Child, on: On, rule: Rule) -> None:
        super().__init__(child.faults, on, rule.verb, rule.times)
        self._child = child
        self._number = rule.number

    def acted(self) -> None:
        super().acted()
        self._child.tell("acted", self._number)

    def saw(self, request: Any, version: int) -> None:
        super().acted()
        self._child.tell("saw", self._number, version, bytes(request.encode(version)))

    async def ask(self, request: Any, version: int) -> Any:
        try:
            return await self._child.ask(self._number, self.on.key, version, request)
        except TypeError:
            # An answer that is not one counts too, or a rule for one request would never end.
            self.acted()
            raise


def active_epoch(broker: Broker) -> int | None:
    """The epoch that the controller of a node is active in; None if it is not."""
    metadata = broker.services.metadata
    active = metadata.active
    return metadata.leader.epoch if active is not None and active.activated.done() else None


def say(text: str) -> None:
    """A line for the report of a test that failed, which may be gone already."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def main(commands: int, events: int) -> None:
    """Runs with the descriptors of its pipes."""
    child = Child(Connection(commands, writable=False), Connection(events, readable=False))
    try:
        child.run()
    except InvalidConfigError as error:
        sys.exit("\n".join(problem.message for problem in error.problems))
    except ExceptionGroup as group:
        refusals, others = group.split(NodeError)
        if others is not None or refusals is None:
            raise
        sys.exit("\n".join(map(str, refusals.exceptions)))
