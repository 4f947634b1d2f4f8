"""Spark: every topic is a DataFrame.

The data source is named ``kaa``; Spark finds it by itself through the module ``pyspark_kaa``. Its
options, rows and errors are those of Spark's own connector for Kafka, so that a query changes
``format("kafka")`` to ``format("kaa")`` and nothing else.

The modules, from what decides to what acts:

``options``      what a user may say, checked before any broker is asked
``offsets``      offsets as JSON, in checkpoints and in options
``plan``         ranges of offsets: admission, splits, loss of data; pure
``schema``       the columns of a row, for Spark and for Arrow
``brokers``      one event loop per process and its connections; what the driver asks
``reading``      a range of offsets as Arrow batches
``segments``     the same from log files of a broker on this machine
``source``       the batch reader
``stream``       the stream reader
``produce``      finished batches to their leaders
``writing``      rows to finished batches
``sink``         the writers
``once``         the machine of the exactly-once sink
``transactions`` its driver
``progress``     progress as the offsets of a consumer group
``java``         the Java that Spark runs on
``sessions``     a session in which all of it works
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaa.spark.progress import watch
    from kaa.spark.sessions import session

__all__ = ["session", "watch"]

_MODULES = {"session": "sessions", "watch": "progress"}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kaa.spark.{module}"), name)
