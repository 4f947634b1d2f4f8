"""How each kind of cell is run, by the name that the table of cells uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benches.loads import coordination, latency, size, spark, throughput

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.cells import Cell
    from benches.stage import Run, Stage

# Stage, cell, side.
LOADS: Final[dict[str, Callable[[Stage, Cell, str], Run]]] = {
    "produce_librdkafka": throughput.produce_librdkafka,
    "consume_librdkafka": throughput.consume_librdkafka,
    "produce_java": throughput.produce_java,
    "consume_java": throughput.consume_java,
    "catch_up": throughput.catch_up,
    "one_in_flight": latency.one_in_flight,
    "fixed_rate": latency.fixed_rate,
    "end_to_end": latency.end_to_end,
    "end_to_end_java": latency.end_to_end_java,
    "rebalance_classic": coordination.rebalance_classic,
    "rebalance_consumer": coordination.rebalance_consumer,
    "commits": coordination.commits,
    "restart_groups": coordination.restart,
    "transactions": coordination.transactions,
    "connections_idle": size.connections_idle,
    "connections_active": size.connections_active,
    "partitions": size.partitions,
    "restart_clean": size.restart_clean,
    "restart_kill": size.restart_kill,
    "spark": spark.run,
}
