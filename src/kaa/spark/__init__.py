"""Spark: every topic is a DataFrame.

The data source is named `kaa`; Spark finds it by itself through the module `pyspark_kaa`. Its
options, rows and errors are those of Spark's own connector for Kafka, so that a query changes
`format("kafka")` to `format("kaa")` and nothing else.

| module | what it owns |
|---|---|
| `entry` | from the options of a query to its schema, readers and writers |
| `options` | what a user may say, checked before any broker is asked |
| `option_names` | the names of options, to tell a slip from what is meant |
| `offsets` | offsets as JSON, in checkpoints and in options |
| `plan` | ranges of offsets: admission, splits, loss of data; pure |
| `schema` | the columns of a row, for Spark and for Arrow |
| `brokers` | one event loop per process and its connections |
| `lookup` | what the driver asks brokers before a batch: partitions, offsets, sizes |
| `topic_reader` | topics read by a batch query |
| `topic_stream` | topics read by a streaming query |
| `range_reader` | a range of offsets read by a task, as Arrow batches |
| `local_segments` | closed segments read from the files of a broker on this machine |
| `tier` | tiered ranges read straight from the object store |
| `formats` | keys and values of records decoded to columns: Avro, JSON, Protobuf |
| `writing` | rows to finished batches |
| `produce` | finished batches to their leaders |
| `identity` | producer ids of tasks without transactions: kept by the process, and used again |
| `sink` | topics written by queries |
| `once` | the exactly-once sink: its machine, its driver and the part of the tasks |
| `progress` | progress as the offsets of a consumer group |
| `metrics` | lag, rows and bytes of sources, for Prometheus |
| `sampling` | a few records of topics, to learn what they look like |
| `filters` | what a condition says about partitions, offsets and times; pure |
| `pruning` | reads that leave out what a query does not need |
| `attaching` | every topic and every table as a view |
| `lake` | tables out of topics: `kaa lake` |
| `pipeline` | pipelines: a small YAML file that wires topics, tables and steps together |
| `java` | the Java that Spark runs on |
| `home` | a home of Spark in which its Python processes start quickly |
| `sessions` | a session in which all of it works |
| `quiet` | Spark beside a display of its own: settings without bars and greetings |
| `errors` | what can go wrong between Spark and a broker |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.lazy import lazy_names

if TYPE_CHECKING:
    from kaa.spark.attaching import attach
    from kaa.spark.metrics import serve_metrics
    from kaa.spark.progress import watch
    from kaa.spark.pruning import plan_read, read
    from kaa.spark.sessions import session

__all__ = ["attach", "plan_read", "read", "serve_metrics", "session", "watch"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kaa.spark.attaching": ["attach"],
        "kaa.spark.metrics": ["serve_metrics"],
        "kaa.spark.progress": ["watch"],
        "kaa.spark.pruning": ["plan_read", "read"],
        "kaa.spark.sessions": ["session"],
    },
)
