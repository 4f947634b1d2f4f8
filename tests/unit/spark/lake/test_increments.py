"""Positions of streams in the history of a table."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from kaa.spark.lake.increments import (
    BEFORE_ALL,
    Changes,
    Limits,
    StreamPosition,
    Version,
    end_of_batch,
    files_between,
)
from kaa.spark.lake.table import DataFileInfo, LakeError


class History:
    """Snapshots with the names of the files that they add."""

    def __init__(self, *steps: tuple[str, str, str]) -> None:
        self._steps = [Version(name, operation) for name, operation, _ in steps]
        self._added = {name: files.split() for name, _, files in steps}

    def lineage(self) -> Sequence[Version]:
        return self._steps

    def added(self, snapshot: str) -> list[DataFileInfo]:
        return [DataFileInfo(one, 1, 10, ()) for one in self._added[snapshot]]

    def whole(self, snapshot: str) -> list[DataFileInfo]:
        names = [one.snapshot for one in self._steps]
        until = self._steps[: names.index(snapshot) + 1]
        return [file for one in until for file in self.added(one.snapshot)]


HISTORY = History(
    ("1", "append", "b a"), ("2", "append", "c"), ("3", "replace", "x"), ("4", "append", "d e f")
)


def read_all(
    history: History, start: StreamPosition, limits: Limits, changes: Changes = "fail"
) -> list[list[str]]:
    """The files of each batch until there are no more."""
    batches, head = [], history.lineage()[-1].snapshot
    while (end := end_of_batch(history, start, head, changes, limits)) != start:
        found = files_between(history, start, end, changes)
        assert files_between(history, start, end, changes) == found
        batches.append([one.url for one in found])
        assert StreamPosition.read(end.write()) == end
        start = end
    return batches


@pytest.mark.parametrize(
    ("start", "limits", "batches"),
    [
        (StreamPosition(BEFORE_ALL), Limits(), [["a", "b", "c", "d", "e", "f"]]),
        (StreamPosition(BEFORE_ALL), Limits(files=2), [["a", "b"], ["c", "d"], ["e", "f"]]),
        (StreamPosition(BEFORE_ALL), Limits(size_bytes=35), [["a", "b", "c"], ["d", "e", "f"]]),
        (StreamPosition(BEFORE_ALL), Limits(files=5, size_bytes=1), [[one] for one in "abcdef"]),
        (StreamPosition("2"), Limits(), [["d", "e", "f"]]),
        (StreamPosition("4", 1), Limits(), [["e", "f"]]),
        (
            StreamPosition("2", 0, is_whole=True),
            Limits(files=4),
            [["a", "b", "c", "d"], ["e", "f"]],
        ),
        (StreamPosition("4"), Limits(), []),
    ],
)
def test_batches(start: StreamPosition, limits: Limits, batches: list[list[str]]) -> None:
    assert [one for one in read_all(HISTORY, start, limits) if one] == batches


def test_changes_are_the_users_choice() -> None:
    history = History(
        ("1", "append", "a"), ("2", "overwrite", "b"), ("3", "delete", ""), ("4", "append", "c")
    )
    start = StreamPosition(BEFORE_ALL)
    with pytest.raises(LakeError, match=r"snapshot 2 of the table is an overwrite.*changes=skip"):
        read_all(history, start, Limits())
    assert read_all(history, start, Limits(), "skip") == [["a", "c"]]
    assert read_all(history, start, Limits(), "added") == [["a", "b", "c"]]


def test_a_history_that_is_gone_is_told() -> None:
    with pytest.raises(LakeError, match="snapshot 9, up to which the stream has read"):
        end_of_batch(HISTORY, StreamPosition("9"), "4", "fail", Limits())
    with pytest.raises(LakeError, match="snapshot 9 is no longer in the history"):
        end_of_batch(HISTORY, StreamPosition("1"), "9", "fail", Limits())


@pytest.mark.parametrize("seed", range(20))
def test_every_file_is_read_once_whatever_the_limits(seed: int) -> None:
    chance = random.Random(seed)
    names = iter(f"{number:04}" for number in range(1000))
    steps = [
        (
            str(number),
            chance.choice(["append", "append", "replace"]),
            " ".join(next(names) for _ in range(chance.randrange(4))),
        )
        for number in range(1, 12)
    ]
    history = History(*steps)
    expected = [one for _, what, files in steps if what == "append" for one in files.split()]
    limits = Limits(chance.choice([None, 1, 3]), chance.choice([None, 5, 25]))
    batches = read_all(history, StreamPosition(BEFORE_ALL), limits)
    assert [one for batch in batches for one in batch] == expected
    assert all(len(batch) <= (limits.files or 1000) for batch in batches)
