from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kaa.coordinators.group.streams.validate import validate_streams_heartbeat
from kaa.coordinators.machine import CoordinatorError
from kaa.limits import STREAMS_TOPOLOGY_ENTRIES_MAX
from kaa.wire.errors import Errors
from kaa.wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskOffset,
)
from tests.unit.coordinators.group.streams.bench import (
    copartitioned,
    info,
    subtopology,
    task_ids,
    topology,
)

OFFSET = TaskOffset(subtopology_id="0", partition=0, offset=1)
REFUSED: list[dict[str, Any]] = [
    {"member_id": " "},
    {"group_id": ""},
    {"rack_id": ""},
    {"instance_id": "i"},
    {"rebalance_timeout_ms": -1},
    {"topology": None},
    {"topology": topology(subtopology(source_topic_regex=["t.*"]))},
    {"active_tasks": task_ids({"0": [0]})},
    {"member_epoch": 1, "topology": None, "active_tasks": []},
    {"member_epoch": 1, "topology": None, "warmup_tasks": task_ids({"0": [0]})},
    {"member_epoch": 1},
    {"member_epoch": 1, "topology": None, "task_offsets": [OFFSET]},
    {"member_epoch": 1, "topology": None, "task_end_offsets": [OFFSET]},
    {"member_epoch": -2, "topology": None},
    {"member_epoch": -3, "topology": None},
]


def validate(**fields: Any) -> Errors:
    every: dict[str, Any] = {"rebalance_timeout_ms": 1, "topology": topology(), "member_epoch": 0}
    try:
        validate_streams_heartbeat(
            StreamsGroupHeartbeatRequest(**({"group_id": "g", "member_id": "m"} | every | fields))
        )
    except CoordinatorError as refusal:
        return refusal.error
    return Errors.NONE


@pytest.mark.parametrize("fields", REFUSED)
def test_what_is_refused(fields: dict[str, Any]) -> None:
    assert validate(**fields) is Errors.INVALID_REQUEST


def test_what_is_not() -> None:
    assert validate() is Errors.NONE
    assert validate(member_epoch=-1, topology=None) is Errors.NONE
    stated = topology(subtopology(state_changelog_topics=[info("c", 3)]))
    assert validate(topology=stated) is Errors.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize(
    "largest",
    [
        lambda count: [subtopology("0", *(["t"] * (count - 1)))],
        lambda count: [subtopology(state_changelog_topics=[info("c")] * ((count - 2) // 2))],
        lambda count: [subtopology(repartition_source_topics=[info("r")] * ((count - 2) // 2))],
        lambda count: [subtopology(repartition_sink_topics=["r"] * (count - 2))],
        lambda count: [subtopology(copartition_groups=[copartitioned([0] * (count - 3), [])])],
        lambda count: [subtopology(copartition_groups=[copartitioned([], [0] * (count - 3))])],
        lambda count: [subtopology()] * (count // 2),
    ],
)
def test_a_topology_that_is_too_large(largest: Callable[[int], list[Subtopology]]) -> None:
    count = STREAMS_TOPOLOGY_ENTRIES_MAX
    assert validate(topology=topology(*largest(count))) is Errors.NONE
    refused = validate(topology=topology(*largest(count + 2)))
    assert refused is Errors.STREAMS_INVALID_TOPOLOGY
