"""The tasks of a round: on Spark, or one after the other in this process."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Protocol

from kaa.spark.lake.writing import write, write_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.spark.formats.untyped import RecordBatch
    from kaa.spark.lake.table import WrittenFile
    from kaa.spark.lake.writing import WriteTask


class Runner(Protocol):
    """Runs the tasks of a round."""

    @property
    def parallel(self) -> int:
        """How many tasks can run at once."""

    def run(self, tasks: list[WriteTask]) -> list[WrittenFile]:
        """All files that the tasks have written."""


class SparkRunner:
    """One Spark job per round: a task per range, which reports its files.

    Spark Connect has no RDDs; there ``mapInArrow`` does the same, for which Spark wants pandas.
    """

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._is_classic = hasattr(spark, "_jsc")

    @property
    def parallel(self) -> int:
        """Spark Connect does not tell; two tasks are never wrong."""
        return int(self._spark.sparkContext.defaultParallelism) if self._is_classic else 2

    def run(self, tasks: list[WriteTask]) -> list[WrittenFile]:
        if not tasks:
            return []
        if self._is_classic:
            parts = self._spark.sparkContext.parallelize(tasks, len(tasks))
            return list(parts.flatMap(write).collect())

        def work(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
            return write_ids(tasks, batches)

        numbers = self._spark.range(0, len(tasks), 1, len(tasks))
        rows = numbers.mapInArrow(work, "file binary").collect()
        return [pickle.loads(bytes(row[0])) for row in rows]  # noqa: S301  Our own tasks wrote it.


class LocalRunner:
    """Without Spark: for small topics, and machines without Java."""

    parallel = 1

    def run(self, tasks: list[WriteTask]) -> list[WrittenFile]:
        return [file for task in tasks for file in write(task)]
