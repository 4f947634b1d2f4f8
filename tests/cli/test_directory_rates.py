"""Rates of moves from looks at directories."""

from __future__ import annotations

import pytest

from kaa.cli.directory_rates import MoveRates
from kaa.client.admin.cluster import LogDir, LogDirReplica
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors


def coming(*sizes: int) -> LogDir:
    """A directory to which replicas of these sizes have come so far."""
    replicas = (
        LogDirReplica(TopicPartition("t", number), size, 0, True)
        for number, size in enumerate(sizes)
    )
    return LogDir(1, "/b", Errors.NONE, -1, -1, tuple(replicas))


@pytest.mark.parametrize(
    ("sizes", "looks", "rate"),
    [
        # Steps of 50 kB, one in a second.
        ([0, 0, 50, 50, 100, 100, 150], 7, 50),
        ([0, 10, 20, 30], 4, 20),
        # One step in all that time: of a large batch.
        ([0] * 5 + [1_000] * 6, 11, 200),
        ([7] * 11, 11, 0),
    ],
)
def test_rate_is_taken_from_step_to_step(sizes: list[int], looks: int, rate: int) -> None:
    rates = MoveRates()
    told = [rates.look([coming(size)], number / 2) for number, size in enumerate(sizes)]
    # It ends by itself, with enough steps or after a few seconds.
    assert told == [True] * (looks - 1) + [False]
    assert rates.bytes_per_second(coming(0)) == rate


def test_without_moves_one_look_is_enough() -> None:
    rates = MoveRates()
    assert not rates.look([coming()], 100.0)
    assert rates.bytes_per_second(coming()) == 0


def test_a_move_that_ends_meanwhile_takes_nothing_away() -> None:
    rates = MoveRates()
    for now, found in enumerate((coming(100, 0), coming(200, 0), coming(10), coming(110))):
        rates.look([found], float(now))
    assert rates.bytes_per_second(coming(110)) == 50
