"""Copies a topic exactly once on a cluster where tasks fail: `master servers topic out folder`.

The first attempt of every task of partition 0 fails after it has handed on rows; each attempt
leaves a file in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kaa.spark import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa


def failing_once(
    folder: str,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pathlib import Path

        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        yield from batches
        if task.partitionId() == 0:
            batch_id = task.getLocalProperty("streaming.sql.batchId")
            Path(folder, f"{batch_id}-{task.attemptNumber()}").touch()
            if task.attemptNumber() == 0:
                raise RuntimeError("the first attempt fails")

    return rows


def main(master: str, servers: str, topic: str, out: str, folder: str) -> None:
    config = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
    }
    spark = session(master, config=config)
    frame = (
        spark.readStream.format("kaa")
        .option("kafka.bootstrap.servers", servers)
        .options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=600)
        .load()
        .select("key", "value")
    )
    query = (
        frame.mapInArrow(failing_once(folder), frame.schema)
        .writeStream.format("kaa")
        .option("kafka.bootstrap.servers", servers)
        .options(topic=out, exactlyOnce=True, checkpointLocation=str(Path(folder, "checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
