"""Groups and transactions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benches.driving import create_topic, delete_topics
from benches.sampling import resident_bytes
from benches.stage import Run
from kaa.wire.errors import Errors
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.support.raw import RawClient

if TYPE_CHECKING:
    from benches.brokers import BrokerNode
    from benches.cells import Cell
    from benches.stage import Stage

_OFFSET_FETCH_VERSION = 7
# Enough of the groups to have some in each of the fifty partitions.
_GROUPS_ASKED_FOR = 500
_TOPIC = "read-by-many"
_LOAD_SECONDS_MAX = 120.0


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


def restart(stage: Stage, cell: Cell, side: str) -> Run:
    """A stop and a start with the offsets of very many groups: until all of them are back."""
    groups = cell.options["groups"]
    node = stage.kept.get(f"groups-{side}")
    if node is None:
        node = stage.own_node(side, {})
        create_topic(node.bootstrap_servers, _TOPIC, cell.load.partitions)
        stage.drive(
            node, "groups", "fill", cell.load, _TOPIC, group="group", connections=10, groups=groups
        )
        stage.kept[f"groups-{side}"] = node
    figures = {"stop_seconds": node.stop()}
    started = time.monotonic()
    node.start()
    for number in range(0, groups, max(1, groups // _GROUPS_ASKED_FOR)):
        _wait_for_offset(node, f"group-{number}")
    figures["start_seconds"] = time.monotonic() - started
    figures["resident_mb_max"] = resident_bytes(node.pid) / 1e6
    return Run(figures)


def _wait_for_offset(node: BrokerNode, group: str) -> None:
    asked = OffsetFetchRequestTopic(name=_TOPIC, partition_indexes=[0])
    request = OffsetFetchRequest(group_id=group, topics=[asked])
    deadline = time.monotonic() + _LOAD_SECONDS_MAX
    with RawClient(node.bootstrap_servers) as client:
        while time.monotonic() < deadline:
            answer = client.ask(request, _OFFSET_FETCH_VERSION)
            if answer.error_code == Errors.NONE:
                assert answer.topics[0].partitions[0].committed_offset == 1, f"{group} lost"
                return
            time.sleep(0.01)
    raise TimeoutError(f"the offset of {group} was not told within {_LOAD_SECONDS_MAX} s")


def transactions(stage: Stage, cell: Cell, side: str) -> Run:
    node = stage.node(side, cell.settings.get(side, {}))
    topic = stage.topic(node, cell.load)
    run = stage.measure_driver(
        node, "librdkafka", "transactions", cell.load, topic,
        transactional_id=stage.unique("bench"), seconds=stage.scale.seconds, **cell.options,
    )  # fmt: skip
    delete_topics(node.bootstrap_servers, [topic])
    return run
