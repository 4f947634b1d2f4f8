"""A log with hundreds of segments that all go at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from kaa.log import upkeep
from kaa.log.log import UnifiedLog
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.scale.requests import TIMEOUT_MS, changes, records_of
from tests.scale.steps import Scale

SEGMENTS = 200


def fill(scale: Scale, name: str) -> UnifiedLog:
    """Makes the segments, of one record each."""
    services = scale.node.broker.services
    log = services.logs.logs[TopicPartition(name, 0)]
    request = records_of(services.image, [name], [0])
    for _ in range(SEGMENTS):
        answer = scale.node.client.ask(request)
        assert answer.responses[0].partition_responses[0].error_code == Errors.NONE
        scale.node.call(partial(log.roll, int(time.time() * 1000)))
    return log


def to_the_end(scale: Scale, name: str) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=-1)
    topic = DeleteRecordsTopic(name=name, partitions=[partition])
    answer = scale.node.client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))
    assert answer.topics[0].partitions[0].error_code == Errors.NONE


def by_age(scale: Scale, name: str) -> None:
    scale.node.client.ask(changes(2, [name], "retention.ms", "1"))


def by_size(scale: Scale, name: str) -> None:
    scale.node.client.ask(changes(2, [name], "retention.bytes", "1"))


@pytest.fixture(autouse=True)
def quick_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand logs have their turn at once, not in the course of a minute."""
    monkeypatch.setattr(upkeep, "TICK_RETAINED_LOGS_MAX", 100_000)


@pytest.mark.parametrize("go", [to_the_end, by_age, by_size])
def test_segments_that_go(scale: Scale, go: Callable[[Scale, str], None]) -> None:
    names = [f"{go.__name__}-{number}" for number in range(2)]
    scale.create(names, 1)

    def round_(part: int) -> None:
        log = fill(scale, names[part])
        go(scale, names[part])
        scale.wait_until(lambda: scale.node.call(lambda: len(log.segments)) < SEGMENTS // 10)

    scale.repeated(f"segments that go, {go.__name__}", round_, 2)
    scale.delete(names)


def test_topics_with_many_segments_that_are_deleted(scale: Scale) -> None:
    names = [f"deleted-{number}" for number in range(2)]
    scale.create(names, 1)
    for name in names:
        fill(scale, name)
    scale.repeated("deletion of many segments", lambda part: scale.delete([names[part]]), 2)
