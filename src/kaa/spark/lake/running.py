"""The tasks of a table: on Spark, or one after the other in this process."""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kaa.client.errors import ClientError
from kaa.limits import LAKE_PAUSE_SECONDS
from kaa.spark.errors import SparkSourceError
from kaa.spark.formats.untyped import pa
from kaa.spark.lake.table import ConflictError, TableAwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kaa.spark.formats.untyped import RecordBatch

Task = TypeVar("Task")
Other = TypeVar("Other")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs tasks; what they get and what they return is small."""

    @property
    def parallel(self) -> int:
        """How many tasks can run at once."""

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """What a function gives for each of the tasks, in their order."""

    def difference(
        self,
        left: Callable[[Task], Iterable[tuple[str, Result]]],
        left_tasks: Sequence[Task],
        right: Callable[[Other], Iterable[tuple[str, None]]],
        right_tasks: Sequence[Other],
    ) -> list[Result]:
        """What the tasks of the left give under names that those of the right do not give."""


class SparkRunner:
    """One Spark job for all tasks, of which each runs on whatever executor is free.

    Spark Connect has no RDDs; there `mapInArrow` does the same, for which Spark wants pandas.
    """

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._is_classic = hasattr(spark, "_jsc")

    @property
    def parallel(self) -> int:
        """Spark Connect does not tell; two tasks are never wrong."""
        return int(self._spark.sparkContext.defaultParallelism) if self._is_classic else 2

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        if not tasks:
            return []
        if self._is_classic:
            parts = self._spark.sparkContext.parallelize(list(tasks), len(tasks))
            return list(parts.map(function).collect())

        def work(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
            return map_numbers(function, tasks, batches)

        numbers = self._spark.range(0, len(tasks), 1, len(tasks))
        rows = numbers.mapInArrow(work, "number long, result binary").collect()
        rows.sort(key=lambda row: row[0])
        return [pickle.loads(bytes(row[1])) for row in rows]  # noqa: S301  Our own tasks wrote it.

    def difference(
        self,
        left: Callable[[Task], Iterable[tuple[str, Result]]],
        left_tasks: Sequence[Task],
        right: Callable[[Other], Iterable[tuple[str, None]]],
        right_tasks: Sequence[Other],
    ) -> list[Result]:
        if not self._is_classic:
            return LocalRunner().difference(left, left_tasks, right, right_tasks)
        if not left_tasks:
            return []
        context = self._spark.sparkContext
        ours = context.parallelize(list(left_tasks), len(left_tasks)).flatMap(left)
        if right_tasks:
            theirs = context.parallelize(list(right_tasks), len(right_tasks)).flatMap(right)
            ours = ours.subtractByKey(theirs, self.parallel)
        return list(ours.values().collect())


def map_numbers(
    function: Callable[[Task], Result], tasks: Sequence[Task], batches: Iterator[RecordBatch]
) -> Iterator[RecordBatch]:
    """What Spark Connect runs: numbers of tasks in, pickled results out."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            result = pa.array([pickle.dumps(function(tasks[number]))], pa.binary())
            numbers = pa.array([number], pa.int64())
            yield pa.RecordBatch.from_arrays([numbers, result], names=["number", "result"])


class LocalRunner:
    """Without Spark: for small topics, and machines without Java."""

    parallel = 1

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        return [function(one) for one in tasks]

    def difference(
        self,
        left: Callable[[Task], Iterable[tuple[str, Result]]],
        left_tasks: Sequence[Task],
        right: Callable[[Other], Iterable[tuple[str, None]]],
        right_tasks: Sequence[Other],
    ) -> list[Result]:
        names = {name for one in right_tasks for name, _ in right(one)}
        found = (pair for one in left_tasks for pair in left(one))
        return [value for name, value in found if name not in names]


def pause(failures: int, stop: threading.Event | None = None) -> None:
    """Waits before the next attempt, the longer, the more have failed in a row."""
    (stop or threading.Event()).wait(LAKE_PAUSE_SECONDS * 2 ** (failures - 1))


def reason_of(error: Exception) -> str | None:
    """Why tasks failed, if trying again may help."""
    if isinstance(error, ConflictError | TableAwayError):
        return str(error)
    if isinstance(error, ClientError | SparkSourceError | OSError | RuntimeError):
        return str(error)
    # What Spark raises has no base of its own that would not need Spark to name it.
    if type(error).__module__.startswith(("py4j", "pyspark")):
        return _last_line(str(error))
    return None


def _last_line(text: str) -> str:
    """Of a trace, the line that says what went wrong."""
    lines = [
        line.strip() for line in text.splitlines() if "Error: " in line or "Exception: " in line
    ]
    return lines[-1] if lines else text[:500]
