"""What many connections and many partitions cost, and how long a restart takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from benches.driving import create_topic, delete_topics
from benches.sampling import resident_bytes
from benches.stage import Run

if TYPE_CHECKING:
    from benches.brokers import BrokerNode
    from benches.cells import Cell
    from benches.sampling import Sampler
    from benches.stage import Stage

_PARTITIONS_PER_TOPIC = 1_000
_RECOVERY_POINTS = "recovery-point-offset-checkpoint"


def connections_idle(stage: Stage, cell: Cell, side: str) -> Run:
    """On a fresh broker: one that has worked before has memory to give away."""
    node = stage.own_node(side, {})
    run = stage.measure_driver(
        node, "connections", "idle", cell.load, "",
        connections=cell.options["connections"], broker_pid=node.pid, hold_seconds=0.5,
    )  # fmt: skip
    node.kill()
    return run


def connections_active(stage: Stage, cell: Cell, side: str) -> Run:
    node = stage.node(side, {})
    topic = stage.topic(node, cell.load)
    run = stage.measure_driver(
        node, "connections", "active", cell.load, topic,
        acks=-1, seconds=stage.scale.seconds, **cell.options,
    )  # fmt: skip
    delete_topics(node.bootstrap_servers, [topic])
    return run


# --- partitions


def partitions(stage: Stage, cell: Cell, side: str) -> Run:
    """A fresh broker gets them, is stopped cleanly, and starts with them."""
    count = cell.options["partitions"]
    node = stage.own_node(side, {})
    empty_bytes = resident_bytes(node.pid)

    def work(_: Sampler) -> dict[str, Any]:
        started = time.monotonic()
        for number in range(count // _PARTITIONS_PER_TOPIC):
            create_topic(node.bootstrap_servers, f"many-{number}", _PARTITIONS_PER_TOPIC)
        return {"create_seconds": time.monotonic() - started}

    run = stage.measure(node, work)
    figures = run.figures
    figures["kb_per_partition"] = (resident_bytes(node.pid) - empty_bytes) / count / 1e3
    figures["stop_seconds"] = node.stop()
    figures["start_seconds"] = node.start()
    figures["resident_mb_started"] = resident_bytes(node.pid) / 1e6
    node.kill()
    return run


# --- restart


def restart_clean(stage: Stage, cell: Cell, side: str) -> Run:
    node = _node_with_data(stage, cell, side)
    stop_seconds = node.stop()
    return _restarted(node, {"stop_seconds": stop_seconds})


def restart_kill(stage: Stage, cell: Cell, side: str) -> Run:
    """Killed, with nothing known to be flushed: all of the data has to be looked through."""
    node = _node_with_data(stage, cell, side)
    node.kill()
    path = node.data_dir / _RECOVERY_POINTS
    if path.exists():
        version, count, *lines = path.read_text().splitlines()
        lines = [f"{line.rpartition(' ')[0]} 0" for line in lines]
        path.write_text("\n".join((version, count, *lines)) + "\n")
    return _restarted(node, {})


def _restarted(node: BrokerNode, figures: dict[str, float]) -> Run:
    figures["start_seconds"] = node.start()
    figures["resident_mb_max"] = resident_bytes(node.pid) / 1e6
    return Run(figures)


def _node_with_data(stage: Stage, cell: Cell, side: str) -> BrokerNode:
    node = stage.kept.get(f"restart-{side}")
    if node is None:
        node = stage.own_node(side, {})
        load, size = cell.load, stage.scale.restart_bytes
        topic = stage.topic(node, load)
        stage.drive(
            node, "librdkafka", "produce", load, topic,
            count=size // load.record_bytes, seconds_max=600,
        )  # fmt: skip
        stage.kept[f"restart-{side}"] = node
    return node
