"""Fetch, key 1: reads batches from partitions that this broker leads, or follows.

The reading is done in `serving/fetching`; which partitions are meant, and which of them the answer
names, is known to the session (`serving/fetch_sessions`). Where the answer has to wait, or the
fetch is served in turns, the connection's next request waits as ever.

| version | what is new |
|---|---|
| 4 | the first that is served: isolation levels |
| 5 | log start offset |
| 7 | incremental sessions (KIP-227) |
| 9 | the client's leader epoch is checked (KIP-320) |
| 10 | zstd |
| 11 | rack of the client: consumers may read from followers (KIP-392) |
| 12 | diverging epochs for followers (KIP-595) |
| 13 | topics by id (KIP-516) |
| 15 | replica state (KIP-903) |
| 16 | current leader and its endpoint (KIP-951) |
| 17, 18 | directory id and high watermark of followers (KIP-853, KIP-1166) |
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kaa.handlers.cluster_action import may_act_as_node
from kaa.handlers.once_applied import once_applied
from kaa.limits import FETCH_PARTITIONS_PER_TURN_MAX
from kaa.log.log import FetchIsolation
from kaa.model.topics import NO_EPOCH
from kaa.net.pending import Pending
from kaa.serving.fetch_sessions import PartitionKey, Position
from kaa.serving.fetching import Fetching, FetchTerms
from kaa.serving.leader_hints import HINTED, HintedLeaders
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k01_fetch import FetchRequest, PartitionData

_FOLLOWER_READS_VERSION: Final = 11
_TOPIC_IDS_VERSION: Final = 13
_LEADER_HINTS_VERSION: Final = 16


def handle(
    services: Services, request: FetchRequest, context: RequestContext
) -> Answer[FetchResponse]:
    count = len(request.topics) + len(request.forgotten_topics_data)
    if count <= FETCH_PARTITIONS_PER_TURN_MAX:
        count = sum(len(topic.partitions) for topic in request.topics)
        if request.forgotten_topics_data:
            count += sum(len(topic.partitions) for topic in request.forgotten_topics_data)
    if count > FETCH_PARTITIONS_PER_TURN_MAX:
        return Pending(_serve_large(services, request, context))
    forgotten = _forgotten(request) if request.forgotten_topics_data else []
    return _serve(services, request, context, _positions(request), forgotten)


async def _serve_large(
    services: Services, request: FetchRequest, context: RequestContext
) -> Answer[FetchResponse]:
    loop, executor = services.loop, services.batch_work
    positions = await loop.run_in_executor(executor, _positions, request)
    forgotten = await loop.run_in_executor(executor, _forgotten, request)
    return _serve(services, request, context, positions, forgotten)


def _serve(
    services: Services,
    request: FetchRequest,
    context: RequestContext,
    positions: dict[PartitionKey, Position],
    forgotten: list[PartitionKey],
) -> Answer[FetchResponse]:
    terms = _terms(request, context.header.api_version)
    is_follower = terms.replica_id >= 0
    if is_follower and not may_act_as_node(services, context):
        return FetchResponse(error_code=Errors.CLUSTER_AUTHORIZATION_FAILED)
    session = services.fetch_sessions.context(
        request.session_id,
        request.session_epoch,
        positions,
        forgotten,
        is_follower=is_follower,
        uses_ids=terms.uses_ids,
        now_ms=services.view.clock.monotonic_ms(),
    )
    if session.error is not Errors.NONE:
        return FetchResponse(error_code=session.error)
    fetching = Fetching(services, terms, session)
    respond = partial(_response, services, context, session.session_id, fetching)
    if services.replicas.has_unapplied:
        serve = partial(_answer, fetching, respond)
        return once_applied(services.replicas, fetching.names(), serve)
    return _answer(fetching, respond)


def _answer(
    fetching: Fetching, respond: Callable[[], Pieces[FetchResponse]]
) -> Answer[FetchResponse]:
    answer = fetching.serve(respond)
    return answer if isinstance(answer, FetchResponse) else Pending(answer)


def _response(
    services: Services, context: RequestContext, session_id: int, fetching: Fetching
) -> Pieces[FetchResponse]:
    names_leaders = context.header.api_version >= _LEADER_HINTS_VERSION
    leaders: HintedLeaders | None = None
    topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    for number, (key, result) in enumerate(fetching.results.items(), 1):
        if number % FETCH_PARTITIONS_PER_TURN_MAX == 0:
            yield
        if not fetching.note_sent(key, result):
            continue
        if result.error_code and names_leaders and result.error_code in HINTED:
            leaders = leaders or HintedLeaders(services, context.listener_name)
            _hint(services, leaders, key, result)
        topic = topics.get((key.topic, key.topic_id))
        if topic is None:
            topic = FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id)
            topics[key.topic, key.topic_id] = topic
        topic.partitions.append(result)
    response = FetchResponse(session_id=session_id, responses=list(topics.values()))
    if leaders is not None:
        response.node_endpoints = leaders.endpoints(NodeEndpoint)
    return response


def _hint(
    services: Services, leaders: HintedLeaders, key: PartitionKey, result: PartitionData
) -> None:
    """Names the leader beside a refusal."""
    topic = services.image.topics_by_id.get(key.topic_id)
    if topic is not None:
        hint = leaders.hint(topic.name, key.number)
        result.current_leader = LeaderIdAndEpoch(
            leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
        )


def _terms(request: FetchRequest, version: int) -> FetchTerms:
    state = request.replica_state
    replica_id = request.replica_id if state is None else state.replica_id
    return FetchTerms(
        replica_id,
        NO_EPOCH if state is None else state.replica_epoch,
        FetchIsolation.of(replica_id, request.isolation_level),
        request.min_bytes,
        request.max_bytes,
        request.max_wait_ms,
        version >= _TOPIC_IDS_VERSION,
        version >= _FOLLOWER_READS_VERSION,
        request.rack_id,
    )


def _positions(request: FetchRequest) -> dict[PartitionKey, Position]:
    return {
        PartitionKey(topic.topic, topic.topic_id, partition.partition): Position(
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            partition.log_start_offset,
        )
        for topic in request.topics
        for partition in topic.partitions
    }


def _forgotten(request: FetchRequest) -> list[PartitionKey]:
    return [
        PartitionKey(topic.topic, topic.topic_id, number)
        for topic in request.forgotten_topics_data
        for number in topic.partitions
    ]
