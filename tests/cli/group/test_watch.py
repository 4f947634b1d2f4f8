from __future__ import annotations

from kaa.cli.group.watch import Look, movement
from kaa.client.admin.groups import PartitionLag
from kaa.model.topics import TopicPartition

PLACE = TopicPartition("t", 0)


def look(seconds: float, committed: int | None, end: int) -> Look:
    return Look(seconds, [PartitionLag(PLACE, committed, 0, end, None)])


def test_first_look_knows_no_rates() -> None:
    (row,) = movement(None, look(0, 5, 10))
    assert (row["lag"], row["read_rate"], row["trend"]) == (5, None, None)


def test_rates_time_behind_and_direction() -> None:
    (row,) = movement(look(0, 0, 100), look(10, 50, 120))
    assert (row["written_rate"], row["read_rate"]) == (2.0, 5.0)
    assert row["lag"] == 70
    assert row["behind_seconds"] == 14.0
    assert row["trend"] == "shrinking"
    (row,) = movement(look(0, 50, 100), look(10, 50, 120))
    assert row["trend"] == "growing"
    assert row["behind_seconds"] is None
    (row,) = movement(look(0, 100, 100), look(10, 100, 100))
    assert (row["trend"], row["behind_seconds"]) == ("steady", 0.0)


def test_a_partition_without_a_commit() -> None:
    (row,) = movement(look(0, None, 10), look(1, None, 10))
    assert (row["lag"], row["trend"]) == (None, None)
