"""Every interleaving of two committers, crashes, lost answers, late commits and maintenance."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest

from kaa.limits import LAKE_ATTEMPTS_MAX
from kaa.spark.lake import machine
from kaa.spark.lake.machine import Committer

END = 2
"""Records of the topic; a round takes one of them."""

File = tuple[int, int, str]
"""First offset, end, commit id."""


@dataclass
class World:
    """The table, the files, two committers, and what may still go wrong."""

    version: int = 0
    offset: int | None = None
    commit_id: str = ""
    named: tuple[File, ...] = ()
    stored: frozenset[File] = frozenset()
    # Commits that were sent and may arrive late: version, commit id, files, offset.
    flying: tuple[tuple[str, str, tuple[File, ...], int], ...] = ()
    committers: list[Process] = field(default_factory=list)
    crashes: int = 1
    unknowns: int = 1
    maintenance: int = 1
    failures: int = 1
    stales: int = 0

    def key(self) -> Any:
        return (
            self.version,
            self.offset,
            self.commit_id,
            self.named,
            self.stored,
            self.flying,
            tuple(one.key() for one in self.committers),
            (self.crashes, self.unknowns, self.maintenance, self.failures, self.stales),
        )

    def apply(self, version: str, commit_id: str, files: tuple[File, ...], offset: int) -> bool:
        if version != str(self.version):
            return False
        self.version += 1
        self.offset = offset
        self.commit_id = commit_id
        self.named += files
        return True


class Process:
    """A committer that runs somewhere."""

    def __init__(self, name: str, life: int = 0) -> None:
        self.name = name
        self.life = life
        self.ids = 0
        self._key: Any = None
        self.machine: Committer[tuple[File, ...]] = Committer(
            lambda starts, ends: {0: min(starts[0] + 1, ends[0])}, self._new_id, is_once=True
        )
        self.waiting: list[Any] = self.machine.start()

    def _new_id(self) -> str:
        self.ids += 1
        return f"{self.name}{self.life}.{self.ids}"

    def twin(self) -> Process:
        twin = Process(self.name, self.life)
        twin.ids = self.ids
        twin.waiting = list(self.waiting)
        for name in ("_goal", "_version", "_offsets", "_round", "_failures", "rounds_committed"):
            setattr(twin.machine, name, getattr(self.machine, name))
        return twin

    def key(self) -> Any:
        if self._key is None:
            state = self.machine
            self._key = (
                self.life,
                self.ids,
                repr(self.waiting),
                state._version,
                repr((state._goal, state._offsets, state._round)),
                state._failures,
            )
        return self._key

    @property
    def is_done(self) -> bool:
        return not self.waiting or isinstance(self.waiting[0], machine.Stop)


def successors(world: World) -> list[World]:
    found = []

    def fork() -> World:
        after = copy.copy(world)
        after.committers = list(world.committers)
        found.append(after)
        return after

    for index, process in enumerate(world.committers):
        if process.is_done:
            continue
        if world.crashes:
            after = fork()
            after.crashes -= 1
            after.committers[index] = Process(process.name, process.life + 1)
        step(fork, world, index, process.waiting[0])
    for index in range(len(world.flying)):
        after = fork()
        version, commit_id, files, offset = after.flying[index]
        after.flying = after.flying[:index] + after.flying[index + 1 :]
        after.apply(version, commit_id, files, offset)
    if world.maintenance and world.offset is not None:
        after = fork()
        after.maintenance -= 1
        after.version += 1
    return found


def answer(world: World, index: int, event: object) -> None:
    process = world.committers[index] = world.committers[index].twin()
    del process.waiting[0]
    process.waiting += process.machine.handle(event)


def step(fork: Any, world: World, index: int, effect: Any) -> None:
    """All outcomes of one effect, each in a world of its own."""
    match effect:
        case machine.LoadTable():
            offsets = {} if world.offset is None else {0: world.offset}
            loaded = machine.Loaded(str(world.version), offsets, world.commit_id)
            answer(fork(), index, loaded)
            if world.failures:
                after = fork()
                after.failures -= 1
                answer(after, index, machine.LoadFailed("the catalog is away"))
        case machine.BackOff():
            after = fork()
            after.committers[index] = after.committers[index].twin()
            del after.committers[index].waiting[0]
        case machine.FindEnds():
            starts = {} if effect.offsets else {0: 0}
            answer(fork(), index, machine.EndsFound(starts, {0: END}))
        case machine.WriteRound():
            after = fork()
            file = (effect.starts[0], effect.ends[0], effect.commit_id)
            after.stored |= {file}
            answer(after, index, machine.RoundWritten((file,)))
            if world.failures:
                after = fork()
                after.failures -= 1
                after.stored |= {file}
                answer(after, index, machine.WriteFailed("disk"))
        case machine.DropFiles():
            after = fork()
            after.stored -= set(effect.files)
            after.committers[index] = after.committers[index].twin()
            del after.committers[index].waiting[0]
        case machine.Commit():
            step_commit(fork, world, index, effect)
        case _:
            raise AssertionError(effect)


def step_commit(fork: Any, world: World, index: int, effect: Any) -> None:
    sent = (effect.version, effect.commit_id, effect.files or (), effect.offsets[0])
    after = fork()
    is_taken = after.apply(*sent)
    answer(after, index, machine.Committed() if is_taken else machine.Conflict())
    if world.unknowns:
        for outcome in ("taken", "lost", "late"):
            after = fork()
            after.unknowns -= 1
            if outcome == "taken":
                after.apply(*sent)
            elif outcome == "late":
                after.flying += (sent,)
            answer(after, index, machine.OutcomeUnknown())
    if world.stales:
        after = fork()
        after.stales -= 1
        answer(after, index, machine.RoundStale("the partitioning was changed"))


def check(world: World) -> None:
    rows = sorted(row for first, end, _ in world.named for row in range(first, end))
    assert rows == list(range(world.offset or 0)), "a record is missing or there twice"
    assert set(world.named) <= world.stored, "a file of the table was deleted"


@pytest.mark.parametrize(
    ("committers", "crashes", "maintenance", "failures", "stales"),
    # Together they would be too many worlds.
    [(1, 2, 1, 1, 0), (1, 1, 1, 0, 1), (2, 0, 1, 0, 0), (2, 1, 0, 0, 0)],
)
def test_every_interleaving(
    committers: int, crashes: int, maintenance: int, failures: int, stales: int
) -> None:
    world = World(
        committers=[Process(name) for name in "ab"[:committers]],
        crashes=crashes,
        maintenance=maintenance,
        failures=failures,
        stales=stales,
    )
    seen = {world.key()}
    waiting = [world]
    endings = 0
    while waiting:
        for after in successors(waiting.pop()):
            key = after.key()
            if key in seen:
                continue
            seen.add(key)
            check(after)
            if all(one.is_done for one in after.committers):
                endings += 1
                assert after.offset == END
                assert all(one.waiting == [machine.Stop()] for one in after.committers)
            waiting.append(after)
    assert endings > 10
    assert len(seen) > (100 if committers == 1 else 5_000)


def test_it_gives_up_after_too_many_failures() -> None:
    process = Process("a")
    effects: list[object] = []
    for _ in range(LAKE_ATTEMPTS_MAX):
        process.machine.handle(machine.Loaded("0", {}, ""))
        process.machine.handle(machine.EndsFound({0: 0}, {0: 2}))
        effects = process.machine.handle(machine.WriteFailed("the disk is full"))
    assert isinstance(effects[0], machine.Stop)
    assert "the disk is full" in str(effects[0].reason)


def test_a_table_that_cannot_be_looked_at_is_looked_at_again() -> None:
    away: Committer[None] = Committer(lambda _, ends: ends, lambda: "x", is_once=True)
    away.handle(machine.Loaded("1", {0: 0}, "before"))
    away.handle(machine.EndsFound({}, {0: 8}))
    away.handle(machine.RoundWritten(None))
    assert away.handle(machine.OutcomeUnknown()) == [machine.LoadTable()]
    effects = away.handle(machine.LoadFailed("gone"))
    assert effects == [machine.BackOff(2), machine.LoadTable()]
    # The round that was in doubt is still known.
    assert away.handle(machine.Loaded("2", {0: 8}, "x")) == [machine.LoadTable()]
    for number in range(1, LAKE_ATTEMPTS_MAX):
        effects = away.handle(machine.LoadFailed("gone"))
        assert effects == [machine.BackOff(number), machine.LoadTable()]
    (stop,) = away.handle(machine.LoadFailed("gone"))
    assert isinstance(stop, machine.Stop)
    assert "gone" in str(stop.reason)


def test_where_a_new_table_begins_is_committed_at_once() -> None:
    process = Process("a")
    process.machine.handle(machine.Loaded("0", {}, ""))
    effects = process.machine.handle(machine.EndsFound({0: 7}, {0: 7}))
    assert effects == [machine.Commit("0", "a0.1", None, {0: 7})]
    assert process.machine.handle(machine.Committed()) == [machine.LoadTable()]
    process.machine.handle(machine.Loaded("1", {0: 7}, "a0.1"))
    assert process.machine.handle(machine.EndsFound({}, {0: 7})) == [machine.Stop()]


def test_a_continuous_committer_waits() -> None:
    waiting: Committer[None] = Committer(lambda _, ends: ends, lambda: "x", is_once=False)
    waiting.handle(machine.Loaded("5", {0: 2}, "before"))
    assert waiting.handle(machine.EndsFound({}, {0: 2})) == [machine.Wait()]
    assert waiting.handle(machine.Waited()) == [machine.LoadTable()]
    waiting.handle(machine.Loaded("5", {0: 2}, "before"))
    assert waiting.handle(machine.EndsFound({1: 0}, {0: 2, 1: 4})) == [
        machine.WriteRound("x", {0: 2, 1: 0}, {0: 2, 1: 4})
    ]


def test_it_rests_when_all_is_read_and_only_then() -> None:
    def half(starts: machine.Offsets, ends: machine.Offsets) -> machine.Offsets:
        return {0: min(ends[0], starts[0] + 5)}

    running: Committer[None] = Committer(half, lambda: "x", is_once=False)
    running.handle(machine.Loaded("1", {0: 0}, "before"))
    running.handle(machine.EndsFound({}, {0: 8}))
    running.handle(machine.RoundWritten(None))
    assert running.handle(machine.Committed()) == [machine.LoadTable()]
    assert running.handle(machine.Loaded("2", {0: 5}, "x")) == [machine.FindEnds({0: 5})]
    running.handle(machine.EndsFound({}, {0: 8}))
    running.handle(machine.RoundWritten(None))
    running.handle(machine.Committed())
    assert running.handle(machine.Loaded("3", {0: 8}, "x")) == [machine.Wait()]
    running.handle(machine.Waited())
    assert running.handle(machine.Loaded("3", {0: 8}, "x")) == [machine.FindEnds({0: 8})]


def test_it_gives_up_when_no_commit_is_answered() -> None:
    silent: Committer[None] = Committer(lambda _, ends: ends, lambda: "x", is_once=True)
    silent.handle(machine.Loaded("1", {0: 0}, "before"))
    silent.handle(machine.EndsFound({}, {0: 8}))
    effects = silent.handle(machine.RoundWritten(None))
    for _ in range(LAKE_ATTEMPTS_MAX - 1):
        assert effects == [machine.Commit("1", "x", None, {0: 8})]
        assert silent.handle(machine.OutcomeUnknown()) == [machine.LoadTable()]
        effects = silent.handle(machine.Loaded("1", {0: 0}, "before"))
    (stop,) = silent.handle(machine.OutcomeUnknown())
    assert isinstance(stop, machine.Stop)
    assert stop.reason is not None
