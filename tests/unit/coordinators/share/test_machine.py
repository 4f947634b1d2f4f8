"""The share coordinator of one partition; its answers and records beside Kafka's are compared by
tests/conformance/coordinators/test_share_states.py.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from kaa.coordinators.machine import CoordinatorError, CoordinatorResult, Moment
from kaa.coordinators.share.batches import StateBatch
from kaa.coordinators.share.machine import ShareMachine, StateChange
from kaa.coordinators.share.settings import ShareStateSettings
from kaa.coordinators.share.state import UNINITIALISED, SharePartitionKey, ShareState
from kaa.limits import SHARE_BATCHES_PER_PIECE
from kaa.model.pieces import Pieces, finish, in_pieces
from kaa.wire.errors import Errors
from kaa.wire.primitives import Uuid

TOPIC = Uuid(b"0123456789abcdef")
KEY = SharePartitionKey("g", TOPIC, 0)
COLD_MS = 1_000


def done(work: CoordinatorResult | Pieces[CoordinatorResult]) -> CoordinatorResult:
    return finish(in_pieces(work))


class Bench:
    def __init__(self, updates: int = 500) -> None:
        settings = ShareStateSettings(updates, COLD_MS)
        self.machine = ShareMachine(lambda: settings, lambda one: 2 if one == TOPIC else 0)
        self.offset = 0
        self.now = Moment(5_000, 0)
        self.apply(self.machine.loaded(self.now))

    def apply(
        self,
        work: CoordinatorResult | Pieces[CoordinatorResult],
        *,
        is_committed: bool = True,
    ) -> CoordinatorResult:
        result = done(work)
        for record in result.records:
            self.machine.timeline.move(self.offset)
            rest = self.machine.replay(self.offset, record.key, record.value, -1, -1)
            if rest is not None:
                finish(rest)
            self.offset += 1
        if is_committed:
            self.machine.timeline.commit(self.offset)
        self.machine.timeline.move(self.offset)
        return result

    def initialise(self, epoch: int = 0, start: int = -1) -> None:
        self.apply(self.machine.initialise(KEY, epoch, start, self.now))

    def write(self, *batches: StateBatch, leader: int = 0, epoch: int = 0) -> CoordinatorResult:
        change = StateChange(epoch, leader, -1, 0, batches)
        return self.apply(self.machine.write(KEY, change, self.now))

    @property
    def state(self) -> ShareState:
        return self.machine.states[KEY]


def refusal(command: object) -> Errors:
    assert callable(command)
    with pytest.raises(CoordinatorError) as caught:
        command()
    return caught.value.error


def test_only_what_was_initialised_is_read_and_written() -> None:
    bench = Bench()
    assert refusal(lambda: bench.machine.read(KEY, 0, bench.now)) is Errors.INVALID_REQUEST
    assert refusal(bench.write) is Errors.INVALID_REQUEST
    bench.initialise()
    bench.write(StateBatch(0, 4, 1, 2))
    assert done(bench.machine.read(KEY, -1, bench.now)).response == bench.state
    assert bench.state.batches == (StateBatch(0, 4, 1, 2),)


def test_partitions_that_do_not_exist_are_refused() -> None:
    machine = Bench().machine
    for key, error in (
        (KEY._replace(partition=-1), Errors.INVALID_REQUEST),
        (KEY._replace(partition=2), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (KEY._replace(topic_id=Uuid(16)), Errors.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        assert refusal(lambda key=key: machine.summary(key)) is error
        assert refusal(lambda key=key: machine.delete(key)) is error


def test_the_first_read_of_a_leader_fences_the_one_before() -> None:
    bench = Bench()
    bench.initialise()
    bench.write(leader=0)
    read = bench.apply(bench.machine.read(KEY, 1, bench.now))
    assert len(read.records) == 1
    assert refusal(lambda: bench.write(leader=0)) is Errors.FENCED_LEADER_EPOCH
    assert refusal(lambda: bench.machine.read(KEY, 0, bench.now)) is Errors.FENCED_LEADER_EPOCH
    assert not done(bench.machine.read(KEY, 1, bench.now)).records


def test_a_new_initialisation_fences_writes_of_the_old_one() -> None:
    bench = Bench()
    bench.initialise(epoch=1)
    bench.initialise(epoch=2, start=40)
    assert refusal(lambda: bench.write(epoch=1)) is Errors.FENCED_STATE_EPOCH
    assert refusal(lambda: bench.initialise(epoch=1)) is Errors.FENCED_STATE_EPOCH
    assert (bench.state.start_offset, bench.state.delivery_complete_count) == (40, 0)
    assert bench.state.batches == ()


@pytest.mark.parametrize("updates", [500, 1])
def test_a_late_write_does_not_take_the_start_back(updates: int) -> None:
    bench = Bench(updates)
    bench.initialise(start=0)
    late = StateChange(0, 0, 15, 7, (StateBatch(10, 17, 1, 4), StateBatch(40, 46, 1, 2)))
    for change in (
        StateChange(0, 0, 15, 25, (StateBatch(15, 39, 1, 2),)),
        StateChange(0, 0, 40, 14, (StateBatch(47, 53, 1, 2),)),
        late,
    ):
        bench.apply(bench.machine.write(KEY, change, bench.now))
    found = bench.apply(bench.machine.read(KEY, 1, bench.now)).response
    assert found is not None
    assert (found.start_offset, found.delivery_complete_count) == (40, 14)
    assert found.batches == (StateBatch(40, 53, 1, 2),)


@pytest.mark.parametrize("updates", [500, 1])
def test_a_write_of_very_many_batches_is_decided_and_replayed_in_pieces(updates: int) -> None:
    bench = Bench(updates)
    bench.initialise(start=0)
    # The next one is an update, or a snapshot.
    bench.write(StateBatch(0, 0, 1, 2))
    count = 10 * SHARE_BATCHES_PER_PIECE
    batches = tuple(StateBatch(2 * index, 2 * index, 1, 2) for index in range(count))
    work = bench.machine.write(KEY, StateChange(0, 0, 0, 0, batches), bench.now)
    assert isinstance(work, Generator)
    decided: list[CoordinatorResult] = []

    def decide() -> Pieces[None]:
        decided.append((yield from work))

    # They are read, sorted, compared and stored.
    assert sum(1 for _ in decide()) >= 4 * count // SHARE_BATCHES_PER_PIECE - 2
    (record,) = decided[0].records
    bench.machine.timeline.move(bench.offset)
    rest = bench.machine.replay(bench.offset, record.key, record.value, -1, -1)
    assert rest is not None
    assert sum(1 for _ in rest) >= count // SHARE_BATCHES_PER_PIECE - 1
    assert bench.state.batches == batches


def test_a_snapshot_after_the_configured_updates_frees_the_log() -> None:
    bench = Bench(updates=2)
    bench.initialise()
    for offset in range(2):
        assert bench.write(StateBatch(offset, offset, 1, 2)).records[0].value is not None
    assert bench.machine.redundant_offset is None
    bench.write(StateBatch(2, 2, 1, 2))
    assert bench.state.snapshot_epoch == 1
    assert bench.state.batches == (StateBatch(0, 2, 1, 2),)
    assert bench.machine.redundant_offset == 3


def test_nothing_uncommitted_frees_the_log() -> None:
    bench = Bench(updates=1)
    bench.initialise()
    bench.write()
    change = StateChange(0, 0, -1, 0, ())
    bench.apply(bench.machine.write(KEY, change, bench.now), is_committed=False)
    assert bench.state.snapshot_epoch == 1
    assert bench.machine.redundant_offset is None


def test_quiet_states_are_written_again() -> None:
    bench = Bench()
    bench.initialise()
    assert bench.machine.timers.next_deadline_ms == COLD_MS
    assert bench.machine.expire(bench.now) is None
    bench.now = Moment(5_000 + COLD_MS, COLD_MS)
    result = bench.machine.expire(bench.now)
    assert result is not None
    bench.apply(result)
    assert (bench.state.snapshot_epoch, bench.state.write_timestamp_ms) == (1, 6_000)
    # Once is enough.
    bench.now = Moment(5_000 + 3 * COLD_MS, 3 * COLD_MS)
    again = bench.machine.expire(bench.now)
    assert again is not None
    assert not again.records


def test_deletions() -> None:
    bench = Bench()
    assert not bench.machine.delete(KEY).records
    bench.initialise()
    bench.apply(finish(bench.machine.topics_deleted([Uuid(16)])))
    assert KEY in bench.machine.states
    bench.apply(finish(bench.machine.topics_deleted([TOPIC])))
    assert KEY not in bench.machine.states
    assert bench.machine.redundant_offset == 1
    bench.initialise()
    bench.apply(bench.machine.delete(KEY))
    assert bench.machine.summary(KEY).response is UNINITIALISED


def test_life() -> None:
    machine = Bench().machine
    assert list(machine.replay_end_transaction(1, is_commit=True)) == []
    assert machine.unloaded() == ()
    assert machine.appended(None, Errors.NONE, Moment(0, 0)) == CoordinatorResult()
