"""Copies a topic over Spark Connect: `servers topic out checkpoint`."""

from __future__ import annotations

import os
import sys

import kaa.spark
from kaa.spark.sessions import environment


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(servers: str, topic: str, out: str, checkpoint: str) -> None:
    os.environ.update(environment(os.environ))
    from pyspark.sql import SparkSession

    # A server of its own on this machine, which the session reaches as one far away.
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    assert "connect" in type(spark).__module__, type(spark)
    cluster = {"kafka.bootstrap.servers": servers}
    rows = spark.read.format("kaa").options(**cluster, subscribe=topic).load()
    say("rows", rows.count())
    views = kaa.spark.attach(spark, {**cluster, "subscribePattern": topic})
    (view,) = [one.name for one in views]
    say("viewed", spark.table(view).count())
    (
        rows.filter("offset < 10")
        .selectExpr("'first' as key", "value")
        .write.format("kaa")
        .options(**cluster, topic=f"{out}-batch", exactlyOnce=True)
        .mode("append")
        .save()
    )
    say(
        "written",
        spark.read.format("kaa").options(**cluster, subscribe=f"{out}-batch").load().count(),
    )
    query = (
        spark.readStream.format("kaa")
        .options(**cluster, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=600)
        .load()
        .select("key", "value")
        .writeStream.format("kaa")
        .options(**cluster, topic=out, exactlyOnce=True, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    say("batches", len(query.recentProgress))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
