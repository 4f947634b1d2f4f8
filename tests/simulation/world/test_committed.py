"""Each property of committed batches is broken in the smallest way, and found."""

from __future__ import annotations

import pytest

from kaa.records.batch import RecordBatch
from kaa.records.build import BatchBuilder
from tests.simulation.world.committed import Committed, InvariantError


def _batch(
    offset: int, sequence: int = -1, *, epoch: int = 0, value: bytes = b"v", is_open: bool = False
) -> RecordBatch:
    builder = BatchBuilder(
        producer_id=7 if sequence >= 0 else -1,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_open,
    )
    builder.append(1, None, value)
    batch = RecordBatch(builder.build())
    batch.set_base_offset(offset)
    return batch


def test_the_same_batches_again_are_sound() -> None:
    committed = Committed("t-0")
    for offset in range(3):
        committed.extend(_batch(offset, offset), "node-1")
    committed.extend(_batch(3, 0, epoch=1), "node-1")
    assert committed.end == 4
    committed.compare(_batch(1, 1), "node-2")


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("committed-changed", _batch(2, 1)),
        ("duplicate-batch", _batch(1, 0)),
        ("sequence-gap", _batch(1, 5)),
        ("fenced-write", _batch(1, 0, epoch=2)),
    ],
)
def test_what_may_not_follow(name: str, batch: RecordBatch) -> None:
    committed = Committed("t-0")
    committed.extend(_batch(0, 0, epoch=3 if name == "fenced-write" else 0), "node-1")
    with pytest.raises(InvariantError) as found:
        committed.extend(batch, "node-1")
    assert found.value.name == name


def test_another_batch_at_a_committed_offset() -> None:
    committed = Committed("t-0")
    committed.extend(_batch(0), "node-1")
    with pytest.raises(InvariantError, match="committed-changed"):
        committed.compare(_batch(0, value=b"w"), "node-2")


def test_the_last_stable_offset_stays_before_an_open_transaction() -> None:
    committed = Committed("t-0")
    committed.extend(_batch(0, 0, is_open=True), "node-1")
    committed.check_stable(0, "node-1")
    with pytest.raises(InvariantError, match="last-stable-offset"):
        committed.check_stable(1, "node-1")
