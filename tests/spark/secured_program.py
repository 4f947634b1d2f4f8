"""Reads and writes a cluster with TLS and SASL, and prints all that Spark shows of a query.

The argument is a file with JSON: `options` that reach the cluster, two `topics`, a folder for
the `checkpoint`, a file with the settings of Spark's `logging`, and `wrong`, options with a
password that is refused.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kaa.spark import session


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(file: str) -> None:
    given = json.loads(Path(file).read_text("utf-8"))
    options: dict[str, str] = given["options"]
    first, second = given["topics"]
    config = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={given['logging']}",
    }
    spark = session("local[2]", config=config)
    java: Any = spark._jvm
    say("java", java.System.getProperty("java.version"))
    rows = spark.range(100).selectExpr("cast(id as string) key", "cast(id as string) value")
    written = {**options, "topic": first, "exactlyOnce": "true"}
    rows.write.format("kaa").options(**written).mode("append").save()
    frame = spark.read.format("kaa").options(**options, subscribe=first).load()
    frame.explain(extended=True)
    say("rows", frame.count())
    named = ", ".join(f"`{name}` '{value}'" for name, value in options.items())
    spark.sql(f"CREATE TEMPORARY VIEW rows USING kaa OPTIONS ({named}, subscribe '{first}')")
    spark.sql("EXPLAIN EXTENDED SELECT count(*) FROM rows").show(truncate=False)
    spark.sql("DESCRIBE EXTENDED rows").show(truncate=False)
    stream(spark, options, first, second, given["checkpoint"])
    back = {**options, "subscribe": second, "isolationLevel": "read_committed"}
    say("copied", spark.read.format("kaa").options(**back).load().count())
    try:
        spark.read.format("kaa").options(**given["wrong"], subscribe=first).load().count()
    except Exception as error:  # noqa: BLE001  All of it is to be seen, and searched.
        say("refused", error)
    spark.stop()


def stream(spark: Any, options: dict[str, str], first: str, second: str, checkpoint: str) -> None:
    copied = (
        spark.readStream.format("kaa")
        .options(**options, subscribe=first, startingOffsets="earliest")
        .load()
        .select("key", "value")
    )
    copied.explain(extended=True)
    written = {**options, "topic": second, "exactlyOnce": "true", "checkpointLocation": checkpoint}
    query = copied.writeStream.format("kaa").options(**written).trigger(availableNow=True).start()
    query.awaitTermination()
    for progress in query.recentProgress:
        say(progress.json)
    query.explain(extended=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
