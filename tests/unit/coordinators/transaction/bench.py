"""A transaction machine on a bench: driven as a shard drives it, but nothing happens by itself.

Records are appended at once and committed at once, unless the test holds commits back. Decisions
wait until the test has their markers written.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from kaa.coordinators.machine import CoordinatorError, CoordinatorResult, Moment, WritableRecord
from kaa.coordinators.transaction.machine import (
    ID_NEEDED,
    RECORD_TYPES,
    Decision,
    End,
    Initialisation,
    TransactionMachine,
)
from kaa.coordinators.transaction.settings import TransactionSettings
from kaa.coordinators.transaction.state import Transaction
from kaa.model.pieces import finish, in_pieces
from kaa.wire.errors import Errors

START_WALL_MS = 1_700_000_000_000
NAME = "t"
FIRST_ID = 100

Command = Callable[[TransactionMachine, int, Moment], CoordinatorResult]


class TransactionBench:
    """See the module's text."""

    def __init__(self, **settings: Any) -> None:
        self.settings = TransactionSettings(**settings)
        self.ids = count(FIRST_ID)
        self.now_ms = 0
        # By how much the date is wrong.
        self.shift_ms = 0
        self.log: list[WritableRecord] = []
        self.is_holding = False
        # Whose markers may be written.
        self.decisions: list[Decision] = []
        self.out_of_time_names: list[str] = []
        # Answers in the order in which they left.
        self.answered: list[tuple[str, Any]] = []
        self._waiting: list[tuple[int, str | None, CoordinatorResult]] = []
        self.restart()

    # --- driving

    def restart(self) -> None:
        """The coordinator is loaded from its log; what was not committed is in it or is not."""
        self._waiting.clear()
        self.decisions.clear()
        self.is_holding = False
        self.machine = TransactionMachine(lambda: self.settings)
        self.machine.timeline.commit(len(self.log))
        for offset, record in enumerate(self.log):
            found = RECORD_TYPES.decode(*record.encode())
            assert found is not None
            self.machine.timeline.move(offset)
            self.machine.replay(offset, *found, -1, -1)
        self.machine.timeline.move(len(self.log))
        self._run(None, lambda machine, _, now: machine.loaded(now))

    @property
    def now(self) -> Moment:
        return Moment(START_WALL_MS + self.now_ms + self.shift_ms, self.now_ms)

    @property
    def transaction(self) -> Transaction:
        return self.machine.transactions[NAME]

    def run(self, name: str, command: Command) -> Any:
        """The answer, if it has left already."""
        before = len(self.answered)
        self._run(name, command)
        found = [answer for one, answer in self.answered[before:] if one == name]
        return found[0] if found else None

    def _run(self, name: str | None, command: Command) -> None:
        timeline = self.machine.timeline
        timeline.move(len(self.log))
        try:
            result = command(self.machine, -1, self.now)
            if result.response is ID_NEEDED:
                result = command(self.machine, next(self.ids), self.now)
        except CoordinatorError as refusal:
            timeline.revert(len(self.log))
            if name is not None:
                self.answered.append((name, refusal.error))
            return
        for record in result.records:
            offset = len(self.log)
            timeline.move(offset)
            self.machine.replay(offset, record.key, record.value, -1, -1)
            self.log.append(record)
        for effect in result.effects:
            if isinstance(effect, Decision):
                self.decisions.append(effect)
            else:
                self.out_of_time_names.append(effect.transactional_id)
        self._waiting.append((len(self.log), name, result))
        if not self.is_holding:
            self.commit()

    def commit(self) -> None:
        """All that was appended is committed."""
        self.is_holding = False
        while self._waiting:
            _, name, result = self._waiting.pop(0)
            self.machine.timeline.commit(len(self.log))
            self._finish(name, result, Errors.NONE)

    def fail(self, error: Errors = Errors.NOT_ENOUGH_REPLICAS) -> None:
        """All that was held back failed to be appended."""
        self.is_holding = False
        offset = self.machine.timeline.committed_offset
        del self.log[offset:]
        self.machine.timeline.revert(offset)
        failed, self._waiting = self._waiting, []
        for end, name, result in failed:
            self._finish(name, result, error if end > offset else Errors.NONE)

    def lose_leadership(self, *, keeps_log: bool) -> None:
        """Another broker leads for a while; what was not committed survives there, or not."""
        if not keeps_log:
            del self.log[self.machine.timeline.committed_offset :]
        self.restart()

    def _finish(self, name: str | None, result: CoordinatorResult, error: Errors) -> None:
        if result.then is not None:
            then = result.then
            self._run(None, lambda machine, _, now: machine.appended(then, error, now))
        if name is not None:
            is_good = error is Errors.NONE
            self.answered.append((name, result.response if is_good else error))

    def advance(self, milliseconds: int) -> None:
        """Lets time pass, deadline by deadline."""
        end_ms = self.now_ms + milliseconds
        while (due := self.machine.timers.next_deadline_ms) is not None and due <= end_ms:
            self.now_ms = max(self.now_ms, due)
            self._run(None, lambda machine, _, now: machine.expire(now) or CoordinatorResult())
            for name in self.out_of_time_names:
                self._run(
                    None,
                    lambda machine, new_id, now, name=name: machine.abort_overdue(  # type: ignore[misc]
                        name, new_id, now
                    ),
                )
            self.out_of_time_names.clear()
        self.now_ms = end_ms

    # --- requests

    def init(self, name: str = NAME, timeout_ms: int = 60_000, **fields: Any) -> Any:
        wish = Initialisation(name, timeout_ms, **fields)
        return self.run(
            "init", lambda machine, new_id, now: machine.init_producer(wish, new_id, now)
        )

    def add(
        self, producer: tuple[int, int], *numbers: int, name: str = NAME, version: int = 2
    ) -> Any:
        partitions = frozenset(("p", number) for number in numbers)
        return self.run(
            "add",
            lambda machine, _, now: finish(
                in_pieces(machine.add_partitions(name, producer, partitions, version, now))
            ),
        )

    def end(
        self,
        producer: tuple[int, int],
        *,
        is_commit: bool = True,
        name: str = NAME,
        version: int = 2,
    ) -> Any:
        wish = End(name, *producer, is_commit, version)
        return self.run("end", lambda machine, new_id, now: machine.end(wish, new_id, now))

    def complete(self, decision: Decision | None = None) -> None:
        """The markers of a decision, or of all, are written."""
        decisions = [decision] if decision is not None else list(self.decisions)
        for each in decisions:
            self.decisions.remove(each)
            self._run(None, lambda machine, _, now, each=each: machine.complete(each, now))  # type: ignore[misc]
