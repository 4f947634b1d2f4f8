"""Groups and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benches.driving import delete_topics

if TYPE_CHECKING:
    from benches.cells import Cell
    from benches.stage import Run, Stage


def rebalance_classic(stage: Stage, cell: Cell, side: str) -> Run:
    return _group(stage, cell, side, "classic", members=cell.options["members"])


def rebalance_consumer(stage: Stage, cell: Cell, side: str) -> Run:
    return _group(stage, cell, side, "consumer", members=cell.options["members"])


def commits(stage: Stage, cell: Cell, side: str) -> Run:
    return _group(
        stage, cell, side, "commits",
        connections=cell.options["connections"], seconds=stage.scale.seconds,
    )  # fmt: skip


def _group(stage: Stage, cell: Cell, side: str, task: str, **more: float) -> Run:
    node = stage.node(side, cell.settings.get(side, {}))
    topic = stage.topic(node, cell.load)
    # The first group of a broker creates the topic of offsets, which is not what is timed.
    stage.drive(
        node, "groups", "commits", cell.load, topic, group="warm-up", connections=1, seconds=0.1
    )
    group = stage.unique("group")
    run = stage.measure_driver(node, "groups", task, cell.load, topic, group=group, **more)
    delete_topics(node.bootstrap_servers, [topic])
    return run


def transactions(stage: Stage, cell: Cell, side: str) -> Run:
    node = stage.node(side, cell.settings.get(side, {}))
    topic = stage.topic(node, cell.load)
    run = stage.measure_driver(
        node, "librdkafka", "transactions", cell.load, topic,
        transactional_id=stage.unique("bench"), seconds=stage.scale.seconds, **cell.options,
    )  # fmt: skip
    delete_topics(node.bootstrap_servers, [topic])
    return run
