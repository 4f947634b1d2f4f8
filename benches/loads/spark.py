"""Spark beside Spark: the data source of Kaa and Spark's own connector, on the same records.

Both read from and write to the same running Kaa broker, each in a Spark of its own, so that what
differs is the connector alone. Here the side `kafka` stands for Spark's own connector.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final

from benches.brokers import KAA
from benches.driving import DriverFailedError, delete_topics

if TYPE_CHECKING:
    from benches.cells import Cell
    from benches.stage import Run, Stage

# Five micro-batches of two hundred records.
_MICRO_BATCH_RECORDS: Final = 1_000


def run(stage: Stage, cell: Cell, side: str) -> Run:
    for module in ("pyspark", "pyspark_kaa"):
        if importlib.util.find_spec(module) is None:
            raise DriverFailedError(f"{module} is not installed")
    node, load, query = stage.node(KAA, {}), cell.load, cell.options["query"]
    if query == "write":
        topic, count = stage.topic(node, load), stage.scale.records(load.record_bytes)
    else:
        is_small = query == "micro-batch"
        size = _MICRO_BATCH_RECORDS * load.record_bytes if is_small else stage.scale.bytes_max
        filled = stage.filled(node, load, size)
        topic, count = filled.topic, filled.count
    measured = stage.measure_driver(
        node, "spark", "query", load, topic,
        connector="kaa" if side == KAA else "kafka", query=query, count=count,
    )  # fmt: skip
    if query == "write":
        delete_topics(node.bootstrap_servers, [topic])
    return measured
