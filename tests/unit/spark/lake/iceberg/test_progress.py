"""The property that says how far a table is."""

from __future__ import annotations

from random import Random

import pytest

from kaa.spark.lake.iceberg.progress import (
    Ancestor,
    TableProgress,
    digest,
    packed,
    read_progress,
    unpacked,
)

OFFSETS = {0: 12, 3: 2**40, 17: 0}
PROGRESS = TableProgress(4711, 5, "c1", "topic.with.dots", "append", OFFSETS)


def test_it_is_read_as_it_was_written() -> None:
    assert read_progress(PROGRESS.write()) == PROGRESS
    assert unpacked(packed({})) == {}
    assert digest(OFFSETS) == digest(dict(reversed(OFFSETS.items())))
    assert digest(OFFSETS) != digest({**OFFSETS, 0: 13})


def test_ten_thousand_partitions_take_less_than_a_hundred_kilobytes() -> None:
    random = Random(7)
    offsets = {partition: random.randrange(2**43) for partition in range(10_000)}
    text = TableProgress(2**62, 2**40, "c" * 16, "t" * 22, "append", offsets).write()
    assert len(text) <= 100_000
    assert read_progress(text).offsets == offsets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        PROGRESS.write().replace('"version": 1', '"version": 2'),
        PROGRESS.write().replace('"offsets": "', '"offsets": "AAAA'),
    ],
)
def test_what_cannot_be_read_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"kaa\.progress|Expecting"):
        read_progress(text)


def test_it_is_true_for_what_comes_from_its_snapshot() -> None:
    own, before, after = Ancestor(4711, 5), Ancestor(1, 4), Ancestor(2, 6)
    assert PROGRESS.is_true_for([own, before], exists=True)
    assert PROGRESS.is_true_for([after, own, before], exists=True)
    # Expired, and the way to it with it.
    assert PROGRESS.is_true_for([after], exists=False)
    # Rolled back; with a commit on top; and where the snapshot was expired after that.
    assert not PROGRESS.is_true_for([before], exists=True)
    assert not PROGRESS.is_true_for([after, before], exists=True)
    assert not PROGRESS.is_true_for([after, before], exists=False)
    assert not PROGRESS.is_true_for([after], exists=True)
    assert not PROGRESS.is_true_for([], exists=False)
