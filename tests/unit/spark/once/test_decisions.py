"""Decisions as records: small, and refused at once where they can never be written."""

from __future__ import annotations

import pytest

from kaa.spark.brokers import brokers_of
from kaa.spark.errors import SparkSourceError
from kaa.spark.once.decisions import COMMITS_TOPIC, Decisions, decoded, encoded
from kaa.spark.once.machine import Decision, Entry
from kaa.spark.options import ClientSettings
from kaa.spark.writing import sink_values
from kaa.testing import Broker

QUERY = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


def entries(count: int) -> tuple[Entry, ...]:
    """Transactions of tasks; their producers come from blocks of several brokers."""
    return tuple(
        Entry(f"kaa-spark.{QUERY}.9a8b7c6d.{task}.0.3", 1000 * (task % 3) + task, task % 2)
        for task in range(count)
    )


@pytest.mark.parametrize("count", [0, 1, 13_000])
def test_it_is_read_as_it_was_written(count: int) -> None:
    decision = Decision(7, entries(count), is_done=count == 1, swept=entries(count // 2))
    assert decoded(encoded(decision)) == decision


def test_a_decision_about_many_tasks_fits_a_record() -> None:
    assert len(encoded(Decision(7, entries(13_000)))) < 100_000
    assert len(encoded(Decision(7, entries(100_000)))) < 1_000_000


def test_a_decision_that_can_never_be_written_is_told_at_once() -> None:
    with Broker() as broker:
        broker.topic(COMMITS_TOPIC, partitions=16, **{"max.message.bytes": 200})
        settings = ClientSettings({"bootstrap.servers": broker.bootstrap_servers})
        brokers = brokers_of(settings)
        decisions = Decisions(brokers, sink_values(settings), QUERY, f"kaa-spark.{QUERY}.commit")
        brokers.call(decisions.fence())
        expected = r"batch 7 of 500 transactions .* MESSAGE_TOO_LARGE; raise max\.message\.bytes"
        with pytest.raises(SparkSourceError, match=expected):
            brokers.call(decisions.write(Decision(7, entries(500))))
        assert brokers.call(decisions.newest()) is None
