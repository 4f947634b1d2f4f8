from __future__ import annotations

from typing import Any

from kaa.client.consumer.records import ConsumerRecord
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.share.batches import StateBatch
from kaa.coordinators.share.state import (
    UNINITIALISED,
    SharePartitionKey,
    state_tombstone,
    update_record,
)
from kaa.model.pieces import finish
from kaa.serving.share.in_flight import RecordState
from kaa.testing.share_outcomes import outcomes
from kaa.wire.primitives import Uuid

KEY = SharePartitionKey("g", Uuid(bytes(range(16))), 0)
OTHER = KEY._replace(partition=1)
AVAILABLE, DONE, GONE = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED


class StateTopic:
    """The log of the share coordinator, in one partition."""

    def __init__(self, *records: NewRecord) -> None:
        self._records = records

    def partition_count(self) -> int:
        return 1

    def offsets(self, timestamp: int, partitions: set[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, 0)

    def records_from(self, starts: dict[int, int]) -> list[ConsumerRecord]:
        assert starts == {0: 0}
        return [
            ConsumerRecord("t", 0, offset, 0, *record.encode())
            for offset, record in enumerate(self._records)
        ]


def begun(state_epoch: int, *batches: StateBatch) -> NewRecord:
    state = UNINITIALISED._replace(state_epoch=state_epoch, batches=batches)
    return finish(state.snapshot(KEY))


def update(*batches: StateBatch, key: SharePartitionKey = KEY, start: int = 0) -> NewRecord:
    record = update_record(
        key,
        snapshot_epoch=0,
        leader_epoch=0,
        start_offset=start,
        delivery_complete_count=0,
        batches=batches,
    )
    return finish(record)


def found(*records: NewRecord) -> dict[int, RecordState]:
    topic: Any = StateTopic(*records)
    return outcomes(topic, [KEY])[KEY]


def test_every_end_is_known_also_before_the_start() -> None:
    states = found(
        begun(1),
        update(StateBatch(0, 1, 1, DONE), StateBatch(2, 2, 1, AVAILABLE)),
        update(StateBatch(5, 5, 1, DONE), key=OTHER),
        update(StateBatch(2, 2, 2, GONE), start=2),
        begun(1, StateBatch(3, 3, 1, DONE)),
    )
    assert states == {0: DONE, 1: DONE, 2: GONE, 3: DONE}


def test_the_later_delivery_counts() -> None:
    assert found(update(StateBatch(0, 0, 1, DONE)), update(StateBatch(0, 0, 1, AVAILABLE))) == {
        0: DONE
    }
    assert found(update(StateBatch(0, 0, 1, DONE)), update(StateBatch(0, 0, 2, AVAILABLE))) == {
        0: AVAILABLE
    }


def test_what_begins_anew_or_ends_is_forgotten() -> None:
    ended = update(StateBatch(0, 0, 1, DONE))
    assert found(begun(1), ended, begun(2)) == {}
    assert found(begun(1), ended, state_tombstone(KEY)) == {}


def test_nothing_is_read_for_nothing() -> None:
    topic: Any = None
    assert outcomes(topic, []) == {}
