"""Heartbeats of streams groups that make no sense, or ask for what Kafka 4.3 does not have either.

Static members, tasks that warm up, offsets of tasks, and source topics by regular expression stand
in the protocol, and are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.modern.group import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from kaa.coordinators.group.streams.topology import is_larger
from kaa.coordinators.machine import CoordinatorError
from kaa.limits import STREAMS_TOPOLOGY_ENTRIES_MAX
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.wire.messages.k88_streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
        Topology,
    )


def validate_streams_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """CoordinatorError for a request that is refused whatever the group is."""
    if request.topology is not None and is_larger(
        request.topology.subtopologies, STREAMS_TOPOLOGY_ENTRIES_MAX
    ):
        raise CoordinatorError(
            Errors.STREAMS_INVALID_TOPOLOGY,
            f"A topology can have at most {STREAMS_TOPOLOGY_ENTRIES_MAX:,} subtopologies, topics "
            "with their settings, and places in copartition groups together.",
        )
    problem = _unsupported(request) or _problem(request)
    if problem is not None:
        raise CoordinatorError(Errors.INVALID_REQUEST, problem)
    if request.topology is not None:
        _check_changelogs(request.topology)


def _unsupported(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.instance_id is not None:
        return "Streams groups have no static members."
    if request.task_offsets is not None or request.task_end_offsets is not None:
        return "Offsets of tasks are not supported."
    if request.warmup_tasks:
        return "Warm-up tasks are not supported."
    topology = request.topology
    if topology is not None and any(one.source_topic_regex for one in topology.subtopologies):
        return "Streams groups take no regular expressions for source topics."
    return None


def _problem(request: StreamsGroupHeartbeatRequest) -> str | None:
    owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if not request.member_id.strip():
        return "A member id is missing."
    if not request.group_id.strip():
        return "A group id is missing."
    if request.rack_id is not None and not request.rack_id.strip():
        return "The rack id is empty."
    if request.member_epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            return "A member that joins must state its rebalance timeout."
        if any(owned):
            return "A member that joins must not have tasks."
        if request.topology is None:
            return "A member that joins must send its topology."
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        return "Only a static member can leave temporarily."
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        return f"{request.member_epoch} is not a valid member epoch."
    if any(one is not None for one in owned) and any(one is None for one in owned):
        return "A member that states its tasks must state those of every kind."
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        return "Only a member that joins sends a topology."
    return None


def _check_changelogs(topology: Topology) -> None:
    for one in topology.subtopologies:
        for topic in one.state_changelog_topics:
            if topic.partitions:
                raise CoordinatorError(
                    Errors.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must not state a number of partitions: it has "
                    "as many as its subtopology has tasks.",
                )
