"""What members get; every case beside Kafka is in tests/conformance/serving."""

from __future__ import annotations

from copy import deepcopy
from itertools import accumulate
from typing import Any

import pytest

from kaa.serving.share.acquisition import Acquired, Fetched, FetchedBatch, acquire, reach
from kaa.serving.share.machine import RELEASE, Acknowledgement, SharePartition, ShareSettings
from tests.unit.serving.share import histories
from tests.unit.serving.share.histories import History

LOG = [FetchedBatch(0, 9), FetchedBatch(10, 19), FetchedBatch(20, 29)]


def partition(**settings: int) -> SharePartition:
    made = SharePartition(lambda: ShareSettings(**settings))  # type: ignore[arg-type]
    made.load(0, [])
    return made


def fetch(
    made: SharePartition,
    records_max: int = 500,
    member: str = "m",
    batches: list[FetchedBatch] = LOG,
    *,
    is_record_limit: bool = False,
) -> list[Acquired]:
    offset = made.next_fetch_offset()
    read = [batch for batch in batches if batch.last_offset >= offset]
    fetched = Fetched(member, offset, read, records_max, 500, is_record_limit)
    return acquire(made, fetched, 0)


def release(made: SharePartition, member: str = "m") -> None:
    made.finish(made.release(member), is_written=True)


def test_whole_batches_or_exact_numbers() -> None:
    assert fetch(partition(), 3) == [Acquired(0, 9, 1)]
    exact = partition()
    assert fetch(exact, 3, is_record_limit=True) == [Acquired(0, 2, 1)]
    assert fetch(exact, 3, "other", is_record_limit=True) == [Acquired(3, 5, 1)]


def test_a_full_window_gives_nothing_new() -> None:
    made = partition(record_locks_max=100)
    batches = [FetchedBatch(one * 50, one * 50 + 49) for one in range(10)]
    while made.can_acquire:
        assert fetch(made, batches=batches)
    assert made.in_flight_count == 100
    assert fetch(made, batches=batches) == []


def test_records_delivered_often_come_in_small_portions() -> None:
    made = partition(delivery_count_max=5)
    sizes = []
    for _ in range(5):
        sizes.append(sum(one.record_count for one in fetch(made, batches=LOG[:1])))
        release(made)
    assert sizes == [10, 10, 10, 5, 1]


def test_aborted_batches_are_never_shown() -> None:
    """W-S9: in the simulation nobody gets what readers of committed records do not."""
    made = partition()
    batches = [LOG[0], LOG[1]._replace(is_aborted=True), LOG[2]]
    assert fetch(made, batches=batches) == [Acquired(0, 9, 1), Acquired(20, 29, 1)]
    assert made.delivery_complete_count == 10
    release(made)
    assert fetch(made, batches=batches) == [Acquired(0, 9, 2), Acquired(20, 29, 2)]


def test_what_compaction_took_is_archived() -> None:
    made = partition()
    fetch(made, batches=LOG[:1])
    one = Acknowledgement(0, 9, [RELEASE])
    made.finish(made.acknowledge("m", [one], 0), is_written=True)
    assert fetch(made, batches=[FetchedBatch(6, 9)]) == [Acquired(6, 9, 2)]
    assert made.delivery_complete_count == 6


def test_nothing_read_is_nothing_acquired() -> None:
    made = partition()
    assert fetch(made, 0) == []
    assert fetch(made, batches=[]) == []
    made.log_start_moved(50)
    assert acquire(made, Fetched("m", 0, LOG, 10, 10), 0) == []


# --- how much has to be read


def needed(made: SharePartition, fetched: Fetched) -> Fetched:
    """The read without what it does not need."""
    first = max(fetched.fetch_offset, fetched.batches[0].base_offset)
    last = reach(made, first, fetched.records_max)
    lasts = accumulate((batch.last_offset for batch in fetched.batches), max, initial=-1)
    batches = [batch for batch, done in zip(fetched.batches, lasts, strict=False) if done < last]
    return fetched._replace(batches=batches)


def everything(made: SharePartition) -> Any:
    offsets = (made.start_offset, made.end_offset, made.gap_start, made.next_fetch_offset())
    states = [
        (offset, state.state, state.delivery_count, state.member_id, state.is_ongoing)
        for batch in made.window
        for first, last, state in batch.states()
        for offset in range(first, last + 1)
    ]
    return offsets, made.delivery_complete_count, states


class Reads:
    """Acquires from every read of a history twice: from all of it, and from what is needed."""

    def __init__(self) -> None:
        self.left_out = 0

    def acquire(self, made: SharePartition, fetched: Fetched, now_ms: int) -> list[Acquired]:
        other = deepcopy(made)
        less = needed(other, fetched)
        self.left_out += len(fetched.batches) - len(less.batches)
        acquired = acquire(made, fetched, now_ms)
        assert acquire(other, less, now_ms) == acquired, (fetched, less)
        assert everything(other) == everything(made), (fetched, less)
        return acquired


@pytest.mark.parametrize("has_aborted", [False, True])
def test_what_is_not_read_would_not_be_handed_out(
    has_aborted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads()
    monkeypatch.setattr(histories, "acquire", reads.acquire)
    for seed in range(150):
        History(seed, has_aborted=has_aborted).play(100)
    assert reads.left_out > 1_000


def test_a_small_fetch_needs_few_batches() -> None:
    made = partition()
    assert reach(made, 0, 5) == 5
    fetch(made, 5, is_record_limit=True)
    # The five that are left of the first batch, and as many of the next.
    assert reach(made, 5, 5) == 9
    assert reach(made, 5, 10) == 14
