"""How long single requests take, and single records from one end to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benches.driving import JavaTool, delete_topics, end_to_end_latency

if TYPE_CHECKING:
    from benches.cells import Cell
    from benches.sampling import Sampler
    from benches.stage import Run, Stage

# Records that are due within so many seconds travel together.
_TICK_SECONDS = {1_000: 1e-4, 20_000: 1e-3}


def one_in_flight(stage: Stage, cell: Cell, side: str) -> Run:
    node = stage.node(side, cell.settings.get(side, {}))
    topic = stage.topic(node, cell.load)
    run = stage.measure_driver(
        node, "produce", "one_in_flight", cell.load, topic, acks=-1, seconds=stage.scale.seconds
    )
    delete_topics(node.bootstrap_servers, [topic])
    return run


def fixed_rate(stage: Stage, cell: Cell, side: str) -> Run:
    node = stage.node(side, cell.settings.get(side, {}))
    topic, rate = stage.topic(node, cell.load), cell.options["rate"]
    run = stage.measure_driver(
        node, "produce", "fixed_rate", cell.load, topic,
        acks=-1, rate=rate, tick_seconds=_TICK_SECONDS[rate], seconds=stage.scale.seconds,
    )  # fmt: skip
    delete_topics(node.bootstrap_servers, [topic])
    return run


def end_to_end(stage: Stage, cell: Cell, side: str) -> Run:
    node = stage.node(side, cell.settings.get(side, {}))
    topic = stage.topic(node, cell.load)
    run = stage.measure_driver(
        node, "end_to_end", "end_to_end", cell.load, topic,
        rate=cell.options["rate"], seconds=stage.scale.seconds, first_offset=0,
    )  # fmt: skip
    delete_topics(node.bootstrap_servers, [topic])
    return run


def end_to_end_java(stage: Stage, cell: Cell, side: str) -> Run:
    node = stage.node(side, cell.settings.get(side, {}))
    topic, count = stage.topic(node, cell.load), stage.scale.end_to_end_records

    def work(sampler: Sampler) -> dict[str, Any]:
        tool = JavaTool(
            "EndToEndLatency",
            *("--bootstrap-server", node.bootstrap_servers, "--topic", topic),
            *("--num-records", str(count), "--producer-acks", cell.load.acks),
            *("--record-size", str(cell.load.record_bytes)),
            seconds_max=stage.scale.driver_seconds_max,
        )
        sampler.watch(tool.pid)
        text, cpu_seconds = tool.result()
        return end_to_end_latency(text) | {"records": count, "driver_cpu_seconds": cpu_seconds}

    run = stage.measure(node, work)
    delete_topics(node.bootstrap_servers, [topic])
    return run
