"""How ranges are combined, against a model that looks at every single offset."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from kaa.coordinators.share import batches as share_batches
from kaa.coordinators.share.batches import StateBatch
from kaa.limits import SHARE_BATCHES_PER_PIECE
from kaa.model.pieces import finish

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def combine(
    known: list[StateBatch], reported: list[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    return finish(share_batches.combine(known, reported, start_offset))


def test_the_one_that_went_further_wins() -> None:
    known = [StateBatch(10, 19, 1, AVAILABLE)]
    assert combine(known, [StateBatch(13, 16, 1, ACKNOWLEDGED)], -1) == (
        StateBatch(10, 12, 1, AVAILABLE),
        StateBatch(13, 16, 1, ACKNOWLEDGED),
        StateBatch(17, 19, 1, AVAILABLE),
    )
    # A released record that is delivered again counts more than its old acknowledgement.
    assert combine(known, [StateBatch(10, 19, 2, AVAILABLE)], -1) == (
        StateBatch(10, 19, 2, AVAILABLE),
    )


def test_what_lies_before_the_start_is_dropped() -> None:
    known = [StateBatch(0, 4, 1, ACKNOWLEDGED), StateBatch(5, 9, 1, AVAILABLE)]
    assert combine(known, [], 7) == (StateBatch(7, 9, 1, AVAILABLE),)
    assert combine(known, [], 10) == ()


def test_equal_neighbours_become_one() -> None:
    known, reported = StateBatch(0, 4, 1, ACKNOWLEDGED), StateBatch(5, 9, 1, ACKNOWLEDGED)
    assert combine([known], [reported], -1) == (StateBatch(0, 9, 1, ACKNOWLEDGED),)


def test_every_offset_has_the_state_that_went_furthest() -> None:
    random = Random(5)
    for _ in range(2_000):
        batches = [
            StateBatch(first, first + random.randint(0, 9), random.randint(1, 3), state)
            for first, state in (
                (random.randint(0, 30), random.choice((AVAILABLE, ACKNOWLEDGED, ARCHIVED)))
                for _ in range(random.randint(0, 8))
            )
        ]
        start = random.randint(-1, 20)
        expected: dict[int, tuple[int, int]] = {}
        for batch in batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                if offset >= start:
                    expected[offset] = max(expected.get(offset, (0, 0)), batch.progress)
        cut = random.randint(0, len(batches))
        found = combine(batches[:cut], batches[cut:], start)
        assert all(one.last_offset < two.first_offset for one, two in pairwise(found))
        assert {
            offset: batch.progress
            for batch in found
            for offset in range(batch.first_offset, batch.last_offset + 1)
        } == expected


def test_parts_that_are_sorted_apart_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(6)
    for _ in range(500):
        batches = [
            StateBatch(first, first + random.randint(0, 9), random.randint(1, 3), AVAILABLE)
            for first in (random.randint(0, 60) for _ in range(random.randint(0, 20)))
        ]
        whole = combine(batches, [], -1)
        with monkeypatch.context() as patched:
            patched.setattr(share_batches, "SHARE_BATCHES_PER_PIECE", random.randint(1, 5))
            assert combine(batches, [], -1) == whole


def test_very_many_are_combined_in_pieces() -> None:
    count = 40 * SHARE_BATCHES_PER_PIECE
    known = [StateBatch(2 * index, 2 * index, 1, ACKNOWLEDGED) for index in range(count)]
    reported = [one._replace(delivery_count=2) for one in reversed(known)]
    pieces = share_batches.combine(known, reported, 0)
    # Each is sorted once, and compared once.
    assert sum(1 for _ in pieces) >= 4 * count // SHARE_BATCHES_PER_PIECE - 1
    assert combine(known, reported, 0) == tuple(reversed(reported))
