"""The exactly-once sink under every crash: a model of brokers and of Spark runs the real machine.

`World` is what survives: transactions, their rows, and the topic of decisions. A `Run` of the
query writes the rows of a batch and goes through the machine; at any effect it may die, before or
after the effect took place. Spark then replays the batch in a new run, as often as it takes. In the
end every row must be visible exactly once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from random import Random
from typing import Any

import pytest

from kaa.limits import SPARK_ABORT_SWEEPS
from kaa.spark.errors import LostTransactionError, SupersededError
from kaa.spark.once.machine import (
    Await,
    Decide,
    Decision,
    Describe,
    Effect,
    End,
    Entry,
    Fence,
    KnownTransaction,
    ListOpen,
    MarkDone,
    Outcome,
    Pause,
    Protocol,
    ReadDecision,
    abort_batch,
    commit_batch,
)
from kaa.wire.errors import Errors


@dataclass
class Transaction:
    """One transactional id at its coordinator."""

    producer_id: int
    epoch: int = 0
    state: str = "Empty"
    rows: list[str] = field(default_factory=list)


class World:
    """Brokers. Visible rows are those of committed transactions."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.visible: list[str] = []
        self.decisions: list[Decision] = []
        # The driver that may write decisions.
        self.owner: object = None
        self._next_producer_id = 100

    def init(self, name: str) -> Transaction:
        """InitProducerId: a new epoch, and an open transaction is aborted."""
        found = self.transactions.get(name)
        if found is None:
            found = self.transactions[name] = Transaction(self._next_producer_id)
            self._next_producer_id += 1
        else:
            found.epoch += 1
        found.state, found.rows = "Empty", []
        return found

    def write(self, name: str, rows: list[str]) -> Entry:
        transaction = self.init(name)
        transaction.state, transaction.rows = "Ongoing", list(rows)
        return Entry(name, transaction.producer_id, transaction.epoch)

    def end(self, entry: Entry, is_commit: bool) -> Errors:
        transaction = self.transactions[entry.transactional_id]
        if (transaction.producer_id, transaction.epoch) != entry[1:]:
            return Errors.PRODUCER_FENCED
        wanted = "CompleteCommit" if is_commit else "CompleteAbort"
        if transaction.state == wanted:
            return Errors.NONE
        if transaction.state != "Ongoing":
            return Errors.INVALID_TXN_STATE
        if is_commit:
            self.visible += transaction.rows
        transaction.state, transaction.rows = wanted, []
        return Errors.NONE

    def perform(self, driver: object, effect: Effect) -> Any:
        match effect:
            case Fence():
                self.owner = driver
            case ReadDecision():
                return self.decisions[-1] if self.decisions else None
            case Describe(entries):
                return {
                    entry.transactional_id: KnownTransaction(
                        found.state == "Ongoing", found.producer_id, found.epoch
                    )
                    for entry in entries
                    if (found := self.transactions.get(entry.transactional_id)) is not None
                }
            case Decide(decision) | MarkDone(decision):
                if self.owner is not driver:
                    raise SupersededError("fenced")
                self.decisions.append(decision)
                return Outcome.DECIDED
            case End(entries, is_commit):
                return [self.end(entry, is_commit) for entry in entries]
            case ListOpen():
                return tuple(
                    Entry(name, one.producer_id, one.epoch)
                    for name, one in self.transactions.items()
                    if one.state == "Ongoing"
                )
            case Await() | Pause():
                """Markers are written at once here, and killed tasks gone."""
        return None


class CrashedError(Exception):
    """The driver died."""


def drive(
    world: World, driver: object, protocol: Protocol, crash_at: int | None, after: bool
) -> int:
    """Runs a protocol; dies at the given effect, before or after it took place.

    Ends of several transactions are a step each, since any of them may be done by then.
    """
    answer: Any = None
    steps = 0
    while True:
        try:
            effect = protocol.send(answer)
        except StopIteration:
            return steps
        if isinstance(effect, End):
            answer = [None] * len(effect.entries)
            order = list(enumerate(effect.entries))
            for index, entry in order if steps % 2 else reversed(order):
                if steps == crash_at and not after:
                    raise CrashedError
                answer[index] = world.end(entry, effect.is_commit)
                if steps == crash_at:
                    raise CrashedError
                steps += 1
            continue
        if steps == crash_at and not after:
            raise CrashedError
        try:
            answer = world.perform(driver, effect)
        except SupersededError:
            protocol.close()
            raise
        if steps == crash_at:
            raise CrashedError
        steps += 1


def rows_of(batch_id: int, task: int) -> list[str]:
    return [f"{batch_id}/{task}/{row}" for row in range(2)]


def write_batch(world: World, run: int, batch_id: int, tasks: int) -> list[Entry]:
    return [
        world.write(f"q.{run:08x}.{task}.0.{batch_id % 4}", rows_of(batch_id, task))
        for task in range(tasks)
    ]


def query(world: World, batches: int, tasks: int, crashes: list[tuple[int, bool]]) -> None:
    """Spark: batches in order; one that was not committed is replayed by a new run."""
    run = 0
    left = list(crashes)
    for batch_id in range(batches):
        while True:
            entries = write_batch(world, run, batch_id, tasks)
            crash_at, after = left.pop(0) if left else (None, False)
            try:
                drive(world, run, commit_batch(batch_id, entries), crash_at, after)
                break
            except CrashedError:
                run += 1


def expected_rows(batches: int, tasks: int) -> list[str]:
    return sorted(
        row for batch in range(batches) for task in range(tasks) for row in rows_of(batch, task)
    )


def check(world: World, batches: int, tasks: int) -> None:
    assert sorted(world.visible) == expected_rows(batches, tasks)
    assert not [one for one in world.transactions.values() if one.state == "Ongoing"]


def steps_of_a_commit(tasks: int) -> int:
    world = World()
    return drive(world, 0, commit_batch(0, write_batch(world, 0, 0, tasks)), None, False)


@pytest.mark.parametrize("tasks", [0, 1, 2, 3])
def test_every_pair_of_crashes(tasks: int) -> None:
    # A run after a crash takes at most as many steps, and the aborts of its own entries.
    points = [
        (step, after)
        for step in range(steps_of_a_commit(tasks) + tasks + 1)
        for after in (False, True)
    ]
    for crashes in [
        [],
        *([one] for one in points),
        *(list(two) for two in product(points, points)),
    ]:
        world = World()
        query(world, 3, tasks, crashes)
        check(world, 3, tasks)


def test_the_effects_of_a_commit_in_order() -> None:
    world = World()
    entries = write_batch(world, 0, 0, 2)
    protocol = commit_batch(0, entries)
    seen: list[str] = []
    answer: Any = None
    while True:
        try:
            effect = protocol.send(answer)
        except StopIteration:
            break
        seen.append(type(effect).__name__)
        answer = world.perform(0, effect)
    assert seen == [
        "Fence",
        "ReadDecision",
        "Describe",
        "Decide",
        "End",
        "ListOpen",
        "MarkDone",
        "Await",
    ]


@pytest.mark.parametrize("is_decided", [False, True])
def test_a_decision_without_an_answer(is_decided: bool) -> None:
    world = World()
    entries = write_batch(world, 0, 0, 2)
    protocol = commit_batch(0, entries)
    answer: Any = None
    lost = False
    while True:
        try:
            effect = protocol.send(answer)
        except StopIteration:
            break
        if isinstance(effect, Decide) and not lost:
            lost = True
            if is_decided:
                world.perform(0, effect)
            answer = Outcome.UNKNOWN
            continue
        answer = world.perform(0, effect)
    check(world, 1, 2)


def test_a_decision_that_stays_unknown_ends_the_query() -> None:
    world = World()
    protocol = commit_batch(0, write_batch(world, 0, 0, 1))

    def perform_without_answers() -> None:
        answer: Any = None
        while True:
            effect = protocol.send(answer)
            decides = isinstance(effect, Decide)
            answer = Outcome.UNKNOWN if decides else world.perform(0, effect)

    with pytest.raises(LostTransactionError, match="still not known"):
        perform_without_answers()


@pytest.mark.parametrize("abort_crash", range(6))
@pytest.mark.parametrize("commit_crash", range(9))
@pytest.mark.parametrize("after", [False, True])
def test_an_abort_after_a_commit_that_failed(
    commit_crash: int, abort_crash: int, after: bool
) -> None:
    """Spark calls abort with the same messages, which must not undo what is decided."""
    world = World()
    entries = write_batch(world, 0, 0, 2)
    try:
        drive(world, 0, commit_batch(0, entries), commit_crash, after)
    except CrashedError:
        with contextlib.suppress(CrashedError):
            drive(world, 1, abort_batch(0, entries), abort_crash, after)
    query_again = write_batch(world, 2, 0, 2)
    drive(world, 2, commit_batch(0, query_again), None, False)
    check(world, 1, 2)


def test_an_abort_of_nothing_writes_nothing() -> None:
    world = World()
    drive(world, 0, abort_batch(0, []), None, False)
    assert world.decisions == []


def steps_of(world: World, run: int, protocol: Protocol) -> Iterator[None]:
    """Each step is one effect."""
    answer: Any = None
    while True:
        try:
            effect = protocol.send(answer)
        except StopIteration:
            return
        answer = world.perform(run, effect)
        yield


def spark_driver(
    world: World, run: int, batch_ids: list[int], tasks: int, done: list[int]
) -> Iterator[None]:
    """A driver as Spark runs it: each step writes a batch, or is one effect of its commit."""
    for batch_id in batch_ids:
        entries = write_batch(world, run, batch_id, tasks)
        yield
        yield from steps_of(world, run, commit_batch(batch_id, entries))
        done.append(batch_id)


def steps_alone(batch_ids: list[int], tasks: int) -> int:
    return sum(1 for _ in spark_driver(World(), 0, batch_ids, tasks, []))


def step(driver: Iterator[None]) -> bool:
    """One step; a driver that fails makes no more, since its query has ended."""
    try:
        next(driver)
    except (StopIteration, SupersededError, LostTransactionError):
        return False
    return True


def run_to_end(driver: Iterator[None]) -> None:
    for _ in driver:
        """Its own steps are all that there are."""


def test_two_drivers_at_once() -> None:
    """Both commit the same batch with transactions of their own, in every order of steps."""
    steps = steps_of_a_commit(1)
    for positions in combinations(range(2 * steps), steps):
        world = World()
        drivers = [
            steps_of(world, run, commit_batch(0, write_batch(world, run, 0, 1))) for run in (0, 1)
        ]
        for number in range(2 * steps):
            step(drivers[number in positions])
        for driver in drivers:
            while step(driver):
                pass
        # Whatever became of the two, the run that Spark starts next makes it whole.
        drive(world, 2, commit_batch(0, write_batch(world, 2, 0, 1)), None, False)
        check(world, 1, 1)


@pytest.mark.parametrize(("tasks", "alone", "first"), [(0, 0, 6), (1, 5, 5)])
def test_a_driver_that_was_left_behind_takes_nothing_from_a_newer_one(
    tasks: int, alone: int, first: int
) -> None:
    """In every order: the rest of a commit, and a newer driver that replays it and goes on.

    The old driver begins alone, up to its decision, since before that it does nothing to others.
    Without rows it decides nothing, and sweeps all the same.
    """
    batch_ids = [0, 1] if tasks else [1]
    steps = first + steps_alone(batch_ids, 1)
    for positions in combinations(range(steps), first):
        world = World()
        done: list[int] = []
        old = spark_driver(world, 0, [0], tasks, done)
        new = spark_driver(world, 1, batch_ids, 1, done)
        for _ in range(alone):
            assert step(old)
        for number in range(steps):
            step(old if number in positions else new)
        for driver in (old, new):
            while step(driver):
                pass
        left = [batch_id for batch_id in batch_ids if batch_id > max(done, default=-1)]
        run_to_end(spark_driver(world, 99, left, 1, []))
        assert sorted(world.visible) == [row for one in batch_ids for row in rows_of(one, 0)]


def test_an_abort_takes_nothing_from_a_newer_driver() -> None:
    """In every order: a query that failed takes its batch back, and a newer run writes it."""
    first, second = 7, steps_alone([0], 1)
    for positions in combinations(range(first + second), first):
        world = World()
        done: list[int] = []
        old = steps_of(world, 0, abort_batch(0, write_batch(world, 0, 0, 1)))
        new = spark_driver(world, 1, [0], 1, done)
        for number in range(first + second):
            step(old if number in positions else new)
        for driver in (old, new):
            while step(driver):
                pass
        run_to_end(spark_driver(world, 99, [] if done else [0], 1, []))
        assert sorted(world.visible) == rows_of(0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_three_drivers_that_take_turns_and_die(seed: int) -> None:
    random = Random(seed)
    for _ in range(500):
        world = World()
        done: list[int] = []
        tasks = random.choice([1, 2])
        drivers = [spark_driver(world, run, [0, 1, 2], tasks, done) for run in range(3)]
        while drivers:
            driver = random.choice(drivers)
            for _ in range(random.choice([1, 1, 2, 3, 8])):
                # Some die at any step, and some are too slow to see what the others did.
                if random.random() < 0.02 or not step(driver):
                    drivers.remove(driver)
                    break
        # What Spark starts next goes on after the last batch whose commit has returned.
        left = list(range(max(done, default=-1) + 1, 3))
        run_to_end(spark_driver(world, 99, left, tasks, []))
        assert sorted(world.visible) == expected_rows(3, tasks)


def test_a_run_that_was_left_behind_must_stop() -> None:
    world = World()
    query(world, 3, 1, [])
    with pytest.raises(SupersededError, match="batch 1 was superseded"):
        drive(world, 9, commit_batch(1, write_batch(world, 9, 1, 1)), None, False)
    assert len(world.visible) == 6


def test_versions_of_an_application_are_skipped_when_they_are_old() -> None:
    world = World()
    query(world, 3, 1, [])
    entries = write_batch(world, 9, 1, 1)
    drive(world, 9, commit_batch(1, entries, skips_older=True), None, False)
    check(world, 3, 1)


def test_a_transaction_that_timed_out_before_the_decision() -> None:
    world = World()
    entries = write_batch(world, 0, 0, 2)
    world.init(entries[1].transactional_id)
    with pytest.raises(LostTransactionError, match="is no longer open"):
        drive(world, 0, commit_batch(0, entries), None, False)
    assert world.visible == []
    assert world.decisions == []


def test_a_transaction_that_another_driver_is_about_to_abort_is_not_decided() -> None:
    world = World()
    entries = write_batch(world, 1, 0, 1)
    slow = commit_batch(0, [])
    answer: Any = None
    # It has written down what it will abort, and then nothing is heard of it for a while.
    while not isinstance(effect := slow.send(answer), End):
        answer = world.perform(0, effect)
    assert effect == End((entries[0],), is_commit=False)
    with pytest.raises(LostTransactionError, match="another run of the query aborts it"):
        drive(world, 1, commit_batch(0, entries), None, False)
    world.perform(0, effect)
    assert world.visible == []


def test_a_newer_version_of_an_application_completes_the_one_before() -> None:
    world = World()
    entries = write_batch(world, 0, 0, 2)
    # Dies between the two commits; its user goes on with another version.
    with pytest.raises(CrashedError):
        drive(world, 0, commit_batch(0, entries, skips_older=True), 4, True)
    more = write_batch(world, 1, 1, 2)
    drive(world, 1, commit_batch(1, more, skips_older=True), None, False)
    check(world, 2, 2)


def test_an_abort_finds_what_killed_tasks_left_open() -> None:
    world = World()
    query(world, 1, 1, [])
    write_batch(world, 7, 1, 2)
    protocol = abort_batch(1, [], has_lost_tasks=True)
    answer: Any = None
    pauses = 0
    while True:
        try:
            effect = protocol.send(answer)
        except StopIteration:
            break
        if isinstance(effect, Pause):
            # One that was killed is still at work for a moment.
            pauses += 1
            world.write(f"q.late.{pauses}", ["late"])
        answer = world.perform(7, effect)
    assert pauses == SPARK_ABORT_SWEEPS - 1
    check(world, 1, 1)


@pytest.mark.parametrize("newest", [Decision(2, (), is_done=True), Decision(0, ())])
def test_an_abort_leaves_to_others_what_may_be_theirs(newest: Decision) -> None:
    world = World()
    world.decisions.append(newest)
    own, other = write_batch(world, 0, 1, 1), write_batch(world, 1, 1, 1)
    drive(world, 0, abort_batch(1, own, has_lost_tasks=True), None, False)
    assert world.transactions[own[0].transactional_id].state == "CompleteAbort"
    assert world.transactions[other[0].transactional_id].state == "Ongoing"


def test_a_transaction_that_is_lost_after_the_decision_is_named() -> None:
    world = World()
    entries = write_batch(world, 0, 0, 2)
    with pytest.raises(CrashedError):
        drive(world, 0, commit_batch(0, entries), 3, True)
    world.init(entries[0].transactional_id)
    with pytest.raises(LostTransactionError, match=f"{entries[0].transactional_id} .* batch 0"):
        drive(world, 1, commit_batch(0, []), None, False)
