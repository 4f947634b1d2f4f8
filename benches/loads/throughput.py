"""As much as goes: producing and consuming, with librdkafka and with Kafka's own tools."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from benches.driving import (
    JavaTool,
    consume_performance,
    delete_topics,
    produce_performance,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.brokers import BrokerNode
    from benches.cells import Cell
    from benches.sampling import Sampler
    from benches.stage import Run, Stage


def _node(stage: Stage, cell: Cell, side: str) -> BrokerNode:
    return stage.node(side, cell.settings.get(side, {}))


def produce_librdkafka(stage: Stage, cell: Cell, side: str) -> Run:
    node = _node(stage, cell, side)
    topic = stage.topic(node, cell.load)
    bytes_max = int(stage.scale.bytes_max * cell.options.get("share", 1))
    count = stage.scale.records(cell.load.record_bytes, bytes_max)
    run = stage.measure_driver(
        node, "librdkafka", "produce", cell.load, topic,
        count=count, seconds_max=stage.scale.seconds_max,
    )  # fmt: skip
    delete_topics(node.bootstrap_servers, [topic])
    return run


def consume_librdkafka(stage: Stage, cell: Cell, side: str) -> Run:
    node = _node(stage, cell, side)
    filled = stage.filled(node, cell.load, stage.scale.bytes_max)
    return stage.measure_driver(
        node, "librdkafka", "consume", cell.load, filled.topic, count=filled.count
    )


def produce_java(stage: Stage, cell: Cell, side: str) -> Run:
    node = _node(stage, cell, side)
    topic, load = stage.topic(node, cell.load), cell.load
    properties = [f"acks={load.acks}", f"compression.type={load.compression}"]
    arguments = ["--topic", topic, "--bootstrap-server", node.bootstrap_servers]
    arguments += ["--num-records", str(stage.scale.records(load.record_bytes))]
    arguments += ["--record-size", str(load.record_bytes), "--throughput", "-1"]
    arguments += ["--print-metrics", "--producer-props", *properties]
    run = _measure_tool(
        stage, node, load.record_bytes, ("ProducerPerformance", *arguments), produce_performance
    )
    delete_topics(node.bootstrap_servers, [topic])
    return run


def consume_java(stage: Stage, cell: Cell, side: str) -> Run:
    node = _node(stage, cell, side)
    filled = stage.filled(node, cell.load, stage.scale.bytes_max)
    arguments = ["--topic", filled.topic, "--bootstrap-server", node.bootstrap_servers]
    arguments += ["--num-records", str(filled.count), "--timeout", "30000", "--print-metrics"]
    return _measure_tool(
        stage,
        node,
        cell.load.record_bytes,
        ("ConsumerPerformance", *arguments),
        consume_performance,
    )


def _measure_tool(
    stage: Stage,
    node: BrokerNode,
    record_bytes: int,
    command: tuple[str, ...],
    read: Callable[[str], dict[str, float]],
) -> Run:
    def work(sampler: Sampler) -> dict[str, Any]:
        tool = JavaTool(*command, seconds_max=stage.scale.driver_seconds_max)
        sampler.watch(tool.pid)
        text, cpu_seconds = tool.result()
        figures = read(text)
        size = figures["records"] * record_bytes
        return figures | {
            "bytes": size,
            "mb_per_second": size / figures["seconds"] / 1e6,
            "driver_cpu_seconds": cpu_seconds,
        }

    return stage.measure(node, work)


def catch_up(stage: Stage, cell: Cell, side: str) -> Run:
    """Reads what is no longer in memory, while single records are produced at a fixed rate."""
    node = _node(stage, cell, side)
    filled = stage.filled(node, cell.load, stage.scale.catch_up_bytes)
    forget_pages(node, filled.topic)
    topic = stage.topic(node, cell.load)
    task = stage.task(node, cell.load, topic, rate=cell.options["rate"], tick_seconds=1e-4)
    task |= {"acks": -1, "seconds": stage.scale.seconds}
    producer = stage.driver("produce", "fixed_rate", task)
    consumer = stage.driver(
        "librdkafka", "consume", stage.task(node, cell.load, filled.topic, count=filled.count)
    )

    def work(sampler: Sampler) -> dict[str, Any]:
        for driver in (producer, consumer):
            sampler.watch(driver.pid)
            driver.begin()
        read, produced = consumer.result(), producer.result()
        return read | {
            "latencies": produced["latencies"],
            "driver_cpu_seconds": read["driver_cpu_seconds"] + produced["driver_cpu_seconds"],
        }

    run = stage.measure(node, work)
    delete_topics(node.bootstrap_servers, [topic])
    return run


def forget_pages(node: BrokerNode, topic: str) -> None:
    """Drops the segments of a topic from the page cache."""
    for path in node.data_dir.glob(f"{topic}-*/*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
