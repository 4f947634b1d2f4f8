"""A streaming query as a program of its own, to be killed: `servers topic out checkpoint`.

It copies a topic exactly once, in small batches, until there is nothing left.
"""

from __future__ import annotations

import sys
from typing import Any

from kaa.spark import session


def main(servers: str, topic: str, out: str, checkpoint: str) -> None:
    config = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    spark = session("local[2]", config=config)
    frame = (
        spark.readStream.format("kaa")
        .option("kafka.bootstrap.servers", servers)
        .options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=100)
        .load()
        .select("key", "value")
    )
    query = (
        frame.writeStream.format("kaa")
        .option("kafka.bootstrap.servers", servers)
        .options(topic=out, exactlyOnce=True, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    java: Any = spark._jvm
    sys.stdout.write(f"java {java.System.getProperty('java.version')}\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
