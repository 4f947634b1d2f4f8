"""Producer ids that one task gives back and another one takes."""

from __future__ import annotations

from kaa.limits import SPARK_PRODUCERS_IDLE_MAX
from kaa.spark.identity import TaskProducer, _Idle
from kaa.spark.options import ClientSettings

HERE = ClientSettings({"bootstrap.servers": "a:1"})
THERE = ClientSettings({"bootstrap.servers": "b:1"})


def test_an_id_belongs_to_its_cluster_and_to_one_task_at_a_time() -> None:
    idle, state = _Idle(), TaskProducer(4, 0)
    idle.give(HERE, state)
    assert idle.take(THERE) is None
    assert idle.take(HERE) is state
    assert idle.take(HERE) is None


def test_the_oldest_are_forgotten() -> None:
    idle = _Idle()
    for number in range(SPARK_PRODUCERS_IDLE_MAX + 1):
        idle.give(HERE, TaskProducer(number, 0))
    taken = [idle.take(HERE) for _ in range(SPARK_PRODUCERS_IDLE_MAX)]
    assert [one.producer_id for one in taken if one is not None] == list(
        range(1, SPARK_PRODUCERS_IDLE_MAX + 1)
    )
    assert idle.take(HERE) is None


def test_a_process_does_not_use_the_ids_of_the_one_it_was_copied_from() -> None:
    idle = _Idle()
    idle.give(HERE, TaskProducer(4, 0))
    idle._pid = -1
    assert idle.take(HERE) is None
