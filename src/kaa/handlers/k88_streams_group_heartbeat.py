"""StreamsGroupHeartbeat, key 88: a member joins a streams group, stays, or leaves (KIP-1071).

The member epoch says what is meant: 0 joins, with the topology of the application; -1 leaves,
anything else stays. The answer has the tasks of the member if it joined or if they have changed,
and says by a status what stands in the way. Internal topics that are missing are asked for, and
nobody waits for them: the next heartbeat finds them. Clusters whose feature streams.version is 0
have no streams groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.names import topic_name_problem
from kaa.coordinators.group.outcome import Client
from kaa.coordinators.group.streams.topology import Status
from kaa.model.topics import INTERNAL_TOPICS
from kaa.net.pending import Hold, Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from kaa.coordinators.group.streams.groups import StreamsHeartbeat
    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k88_streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
        Topology,
    )


def handle(
    services: Services, request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> Answer[StreamsGroupHeartbeatResponse]:
    if not services.has_streams_groups:
        error = Errors.UNSUPPORTED_VERSION
        return StreamsGroupHeartbeatResponse(error_code=error, error_message=error.message)
    problem = None if request.topology is None else _name_problem(request.topology)
    if problem is not None:
        return StreamsGroupHeartbeatResponse(
            error_code=Errors.STREAMS_INVALID_TOPOLOGY, error_message=problem
        )
    client = Client(context.client_id, context.client_host, context.api_version)
    answer = services.groups.streams_heartbeat(
        request, client, _refused, lambda heartbeat: _respond(services, heartbeat)
    )
    return Pending(answer, Hold.NOTHING)


def _respond(services: Services, heartbeat: StreamsHeartbeat) -> StreamsGroupHeartbeatResponse:
    response, topics = heartbeat
    if topics:
        ttl_ms = 2 * response.heartbeat_interval_ms
        problem = services.streams_topics.create(topics, ttl_ms)
        for status in response.status or ():
            if problem and status.status_code == Status.MISSING_INTERNAL_TOPICS:
                status.status_detail += f"; Creation failed: {problem}."
    return response


def _name_problem(topology: Topology) -> str | None:
    names = dict.fromkeys(
        name
        for one in topology.subtopologies
        for name in (
            *one.source_topics,
            *one.repartition_sink_topics,
            *(topic.name for topic in one.repartition_source_topics),
            *(topic.name for topic in one.state_changelog_topics),
        )
    )
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        return f"Kafka's own topics {','.join(internal)} must not be part of a topology."
    invalid = [name for name in names if topic_name_problem(name) is not None]
    if invalid:
        return f"{','.join(invalid)} cannot be names of topics."
    return None


def _refused(error: CoordinatorError) -> StreamsGroupHeartbeatResponse:
    # Of what Kafka fails on it says nothing more either.
    message = None if error.error is Errors.UNKNOWN_SERVER_ERROR else error.message
    return StreamsGroupHeartbeatResponse(error_code=error.error, error_message=message)
