"""A share partition against what must hold, with faults planted to see that it is noticed.

`Watched` looks at a random history from outside: at what members get, and at what was written. The
faults are those that other brokers have had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kaa.coordinators.share.batches import StateBatch
from kaa.serving.share import acquisition
from kaa.serving.share.acquisition import Acquired, FetchedBatch
from kaa.serving.share.in_flight import InFlightBatch, InFlightState, RecordState
from kaa.serving.share.machine import (
    ACCEPT,
    RENEW,
    Acknowledgement,
    AcknowledgementError,
    DeliveryChange,
    SharePartition,
    ShareSettings,
)
from kaa.wire.errors import Errors
from tests.unit.serving.share.histories import LOCK_MS, History
from tests.unit.serving.share.test_acquisition import fetch, partition

HISTORIES = 40
COMMANDS = 150
# A member may get one record a round.
SETTLING_ROUNDS = 1_500


class Watched(History):
    """Fails as soon as a member gets what it must not get."""

    spares_kafka = False

    def __init__(self, seed: int) -> None:
        self.done: set[int] = set()
        self.deliveries: dict[int, int] = {}
        super().__init__(seed, is_plain=True)

    def check_acquired(self, acquired: list[Acquired]) -> None:
        aborted = {
            offset
            for batch in self.log
            if batch.is_aborted
            for offset in range(batch.base_offset, batch.last_offset + 1)
        }
        longest = max(batch.last_offset - batch.base_offset + 1 for batch in self.log)
        bound = self.settings.record_locks_max + longest
        assert self.partition.in_flight_count <= bound, "the window is larger than its limit"
        for one in acquired:
            for offset in range(one.first_offset, one.last_offset + 1):
                assert offset not in self.done, f"{offset} was acknowledged and came back"
                assert offset not in aborted, f"{offset} was aborted"
                count = self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
                assert count <= self.settings.delivery_count_max, f"{offset} came too often"

    def finish(self, change: DeliveryChange, *, is_ok: bool) -> None:
        super().finish(change, is_ok=is_ok)
        if is_ok:
            for batch in change.batches:
                if RecordState(batch.delivery_state).is_terminal:
                    self.done.update(range(batch.first_offset, batch.last_offset + 1))

    def settle(self) -> None:
        """Members say yes to everything: each record ends, and none is forgotten."""
        for _ in range(SETTLING_ROUNDS):
            self.now_ms += LOCK_MS
            expired = self.partition.expire(self.now_ms)
            if expired is not None:
                self.finish(expired, is_ok=True)
            while self.pending:
                self.finish(self.pending.pop()[1], is_ok=True)
            self.fetch()
            for member, held in self.held.items():
                for one in held:
                    types = [ACCEPT]
                    accepted = Acknowledgement(one.first_offset, one.last_offset, types)
                    try:
                        change = self.partition.acknowledge(member, [accepted], self.now_ms)
                    except AcknowledgementError:
                        continue
                    self.finish(change, is_ok=True)
                held.clear()
        # Aborted records at the end are done with, and wait for the next write.
        self.partition.advance()
        end = self.log[-1].last_offset + 1
        assert self.partition.start_offset == end, "records were forgotten"


def watch() -> None:
    for seed in range(HISTORIES):
        history = Watched(seed)
        history.play(COMMANDS)
        history.settle()


def test_what_must_hold_holds() -> None:
    watch()


def unlimited(patch: pytest.MonkeyPatch) -> None:
    """The cap is not a cap: another window is added whenever nothing is available."""
    patch.setattr(acquisition.Acquisition, "_room", lambda self: self._fetched.records_max)


def shows_aborted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acquisition.Acquisition, "_without_aborted", lambda self: self.acquired)


def success_whatever_was_written(patch: pytest.MonkeyPatch) -> None:
    finish = InFlightState.finish
    patch.setattr(
        InFlightState, "finish", lambda self, *, is_written: finish(self, is_written=not is_written)
    )


def no_delivery_limit(patch: pytest.MonkeyPatch) -> None:
    change = InFlightState.change
    patch.setattr(InFlightState, "change", lambda self, state, _: change(self, state, 10**6))


def locks_never_run_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "expire", lambda *_: None)


def forgets_to_look(patch: pytest.MonkeyPatch) -> None:
    """What was released is never looked for again."""
    patch.setattr(
        SharePartition,
        "next_fetch_offset",
        lambda self: self.end_offset + 1 if self.window else self.end_offset,
    )


@pytest.mark.parametrize(
    "plant",
    [
        unlimited,
        shows_aborted,
        success_whatever_was_written,
        no_delivery_limit,
        locks_never_run_out,
        forgets_to_look,
    ],
)
def test_faults_are_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        watch()


def test_renewing_extends_the_lock() -> None:
    made = partition(lock_duration_ms=100)
    fetch(made)
    assert not made.acknowledge("m", [Acknowledgement(0, 29, [RENEW])], 50).batches
    assert made.expire(120) is None
    change = made.expire(150)
    assert change is not None
    assert change.batches == (StateBatch(0, 29, 1, RecordState.AVAILABLE),)


def test_renewing_can_be_switched_off() -> None:
    made = partition(is_renew_enabled=False)
    fetch(made)
    with pytest.raises(AcknowledgementError) as refused:
        made.acknowledge("m", [Acknowledgement(0, 29, [RENEW])], 50)
    assert refused.value.error is Errors.INVALID_RECORD_STATE


def test_one_wrong_acknowledgement_spoils_the_request() -> None:
    made = partition()
    fetch(made)
    good, wrong = Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(5, 99, [ACCEPT])
    with pytest.raises(AcknowledgementError) as refused:
        made.acknowledge("m", [good, wrong], 0)
    assert refused.value.error is Errors.INVALID_REQUEST
    assert made.delivery_complete_count == 0
    assert made.acknowledge("m", [good], 0).batches


def test_stored_batches_that_overlap_are_refused() -> None:
    made = SharePartition(ShareSettings)
    with pytest.raises(ValueError, match="overlap"):
        made.load(0, [StateBatch(0, 5, 1, 0), StateBatch(5, 6, 1, 0)])


def test_the_log_start_moves_the_window() -> None:
    made = partition()
    fetch(made)
    made.log_start_moved(15)
    assert made.start_offset == 15
    # The member may still acknowledge what it has.
    made.finish(made.acknowledge("m", [Acknowledgement(0, 29, [ACCEPT])], 0), is_written=True)
    # What lies before the start is let go when its locks run out.
    expired = made.expire(30_000)
    assert expired is not None
    assert made.finish(expired, is_written=True)
    assert made.start_offset == 30


def test_single_records_are_not_walked_through_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that takes and accepts one record after the other of a large batch."""
    made = partition()
    count = 500
    looked = 0
    states = InFlightBatch.states

    def counted(batch: InFlightBatch, *within: int) -> Iterator[tuple[int, int, InFlightState]]:
        nonlocal looked
        for found in states(batch, *within):
            looked += 1
            yield found

    monkeypatch.setattr(InFlightBatch, "states", counted)
    log = [FetchedBatch(0, count - 1)]
    for offset in range(count):
        assert fetch(made, 1, batches=log, is_record_limit=True) == [Acquired(offset, offset, 1)]
        accepted = made.acknowledge("m", [Acknowledgement(offset, offset, [ACCEPT])], 0)
        assert made.finish(accepted, is_written=True)
    assert made.start_offset == count
    assert looked < 10 * count
