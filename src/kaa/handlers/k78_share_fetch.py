"""ShareFetch, key 78: a member of a share group gets records, and says what became of earlier ones
(KIP-932).

A session says which partitions are meant (`kaa.serving.share.sessions`); requests name what changes
of it, and answers what there is news of. Acknowledgements come first, so that what is given back
can be handed out again at once. While there is nothing to hand out the fetch is parked.

| version | what is new |
|---|---|
| 1 | the first that is served |
| 2 | acquire modes (KIP-1206), and locks that are renewed (KIP-1222) |
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kaa.handlers.share_sessions import (
    RENEW_VERSION,
    acknowledge,
    acknowledged,
    outcomes_of,
    problem,
)
from kaa.limits import PARTS_BEGUN_PER_TURN_MAX, SHARE_PARTITIONS_PER_TURN_MAX
from kaa.model.pieces import mapped
from kaa.model.turns import Turns, in_turns
from kaa.net.pending import Pending
from kaa.serving.applied import until_applied
from kaa.serving.leader_hints import HINTED, HintedLeaders
from kaa.serving.share.fetch import FetchLimits, ShareFetch, ShareRead, fetch_some
from kaa.serving.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSessionError
from kaa.wire.errors import Errors
from kaa.wire.messages.k78_share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kaa.wire.primitives import PartitionId

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from kaa.handlers.context import Answer, RequestContext
    from kaa.handlers.share_sessions import AcknowledgeOutcome
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.serving.share.led import LedSharePartition
    from kaa.serving.share.sessions import ShareSession
    from kaa.wire.messages.k78_share_fetch import ShareFetchRequest
    from kaa.wire.primitives import Uuid

_RECORD_LIMIT_MODE: Final = 1
# The fact of a connection whose sessions end with it.
_WATCHED: Final = "has share sessions"


def handle(
    services: Services, request: ShareFetchRequest, context: RequestContext
) -> Answer[ShareFetchResponse]:
    return Pending(_serve(services, request, context))


async def _serve(
    services: Services, request: ShareFetchRequest, context: RequestContext
) -> ShareFetchResponse:
    refused = problem(services, request.group_id, request.member_id)
    if refused is None and context.api_version >= RENEW_VERSION and _is_renew_wrong(request):
        refused = Errors.INVALID_REQUEST
    if refused is not None:
        return ShareFetchResponse(error_code=refused)
    epoch, batches = request.share_session_epoch, acknowledged(request.topics)
    try:
        added = await in_turns(_named(request))
        session = _session(services, request, context, added, has_batches=bool(batches))
    except ShareSessionError as error:
        if error.error is Errors.SHARE_SESSION_LIMIT_REACHED:
            # A client that is refused at once comes again at once.
            await asyncio.sleep(max(0, request.max_wait_ms) / 1000)
        return ShareFetchResponse(error_code=error.error)
    asked = await acknowledge(services, request, context, batches)
    reads: dict[PartitionId, ShareRead] = {}
    if epoch != FINAL_EPOCH:
        reads = await _fetch(services, request, session)
    outcomes = await outcomes_of(asked)
    if epoch == FINAL_EPOCH:
        await services.share_partitions.close(session)
    elif epoch != INITIAL_EPOCH:
        reads = await in_turns(_news(session, reads))
    return await in_turns(_response(services, request, context, reads, outcomes))


def _is_renew_wrong(request: ShareFetchRequest) -> bool:
    """Who renews locks fetches nothing, and has to say so."""
    limits = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    return request.is_renew_ack and any(limits)


def _named(request: ShareFetchRequest) -> Pieces[list[PartitionId]]:
    return mapped(
        lambda one: PartitionId(*one),
        (
            (topic.topic_id, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        ),
    )


def _session(
    services: Services,
    request: ShareFetchRequest,
    context: RequestContext,
    added: list[PartitionId],
    *,
    has_batches: bool,
) -> ShareSession:
    shares, epoch = services.share_partitions, request.share_session_epoch
    group_id, member_id = request.group_id or "", request.member_id or ""
    if epoch == FINAL_EPOCH:
        return shares.sessions.get(group_id, member_id)
    if epoch == INITIAL_EPOCH:
        if has_batches:
            raise ShareSessionError(Errors.INVALID_REQUEST)
        connection = context.connection
        if _WATCHED not in connection.facts:
            connection.facts[_WATCHED] = True
            connection.when_closed(lambda: shares.disconnected(connection))
        return shares.sessions.open(group_id, member_id, added, connection)
    session = shares.sessions.advance(group_id, member_id, epoch)
    forgotten = [
        PartitionId(topic.topic_id, number)
        for topic in request.forgotten_topics_data
        for number in topic.partitions
    ]
    shares.sessions.update(session, added, forgotten)
    return session


async def _fetch(
    services: Services, request: ShareFetchRequest, session: ShareSession
) -> dict[PartitionId, ShareRead]:
    limits = FetchLimits(
        request.min_bytes,
        request.max_bytes,
        request.max_records,
        request.batch_size,
        request.share_acquire_mode == _RECORD_LIMIT_MODE,
    )
    turn, wait_ms = request.share_session_epoch, request.max_wait_ms
    failed: dict[PartitionId, ShareRead] = {}
    if len(session.partitions) > SHARE_PARTITIONS_PER_TURN_MAX:
        # To make such a session was enough for a turn.
        await asyncio.sleep(0)
        parts = _parts(services, session, limits, turn, failed)
        return failed | await fetch_some(services.polls, parts, wait_ms)
    wanted = await _led(services, session, tuple(session.partitions), failed)
    if not wanted:
        return failed
    fetch = ShareFetch(services.view, session, wanted, limits, turn)
    looked = fetch.look(is_late=wait_ms <= 0)
    if looked is None:
        looked = await services.polls.wait(fetch.sources, wait_ms, fetch.look)
    return failed | looked


async def _led(
    services: Services,
    session: ShareSession,
    partitions: Sequence[PartitionId],
    failed: dict[PartitionId, ShareRead],
) -> dict[PartitionId, LedSharePartition | Errors]:
    """The share partitions, of which some may have to be loaded; adds to what failed."""
    shares, topics = services.share_partitions, services.image.topics_by_id
    wanted: dict[PartitionId, LedSharePartition | Errors] = {}
    turns = Turns(PARTS_BEGUN_PER_TURN_MAX)
    for one in partitions:
        await turns.next()
        topic = topics.get(one.topic_id)
        if topic is None:
            failed[one] = ShareRead(Errors.UNKNOWN_TOPIC_ID)
        elif one.number not in topic.partitions:
            failed[one] = ShareRead(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            await until_applied(services.replicas, [(topic.name, one.number)])
            if session.is_closed:
                return {}
            wanted[one] = shares.lead(session.group_id, one)
    return wanted


async def _parts(
    services: Services,
    session: ShareSession,
    limits: FetchLimits,
    turn: int,
    failed: dict[PartitionId, ShareRead],
) -> AsyncGenerator[ShareFetch, None]:
    """The partitions of a large session, some in each; another part is first each time."""
    everything = tuple(session.partitions)
    starts = range(0, len(everything), SHARE_PARTITIONS_PER_TURN_MAX)
    first = turn % len(starts)
    for start in (*starts[first:], *starts[:first]):
        some = everything[start : start + SHARE_PARTITIONS_PER_TURN_MAX]
        wanted = await _led(services, session, some, failed)
        if session.is_closed:
            return
        if wanted:
            yield ShareFetch(services.view, session, wanted, limits, turn)


def _news(
    session: ShareSession, reads: dict[PartitionId, ShareRead]
) -> Pieces[dict[PartitionId, ShareRead]]:
    """What an answer of a session names: records, errors, and partitions that are new in it."""
    news = {}
    for count, (one, read) in enumerate(reads.items(), 1):
        if count % SHARE_PARTITIONS_PER_TURN_MAX == 0:
            yield
        is_due = session.partitions.get(one)
        if is_due is None:
            # Forgotten meanwhile.
            continue
        has_failed = read.error is not Errors.NONE
        if read.acquired or has_failed or is_due:
            news[one] = read
        session.partitions[one] = has_failed
    return news


def _response(
    services: Services,
    request: ShareFetchRequest,
    context: RequestContext,
    reads: dict[PartitionId, ShareRead],
    outcomes: dict[PartitionId, AcknowledgeOutcome],
) -> Pieces[ShareFetchResponse]:
    leaders = HintedLeaders(services, context.listener_name)
    topics: dict[Uuid, ShareFetchableTopicResponse] = {}
    for count, one in enumerate({**reads, **outcomes}, 1):
        if count % SHARE_PARTITIONS_PER_TURN_MAX == 0:
            yield
        result = _partition(one, reads.get(one, ShareRead()), outcomes.get(one))
        image = services.image.topics_by_id.get(one.topic_id)
        errors = {Errors.of(result.error_code), Errors.of(result.acknowledge_error_code)}
        if image is not None and errors & HINTED:
            hint = leaders.hint(image.name, one.number)
            result.current_leader = LeaderIdAndEpoch(
                leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
            )
        topic = topics.setdefault(one.topic_id, ShareFetchableTopicResponse(topic_id=one.topic_id))
        topic.partitions.append(result)
    settings = services.share_partitions.settings(request.group_id or "")
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=settings.partitions().lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=leaders.endpoints(NodeEndpoint),
    )


def _partition(
    one: PartitionId, read: ShareRead, outcome: AcknowledgeOutcome | None
) -> PartitionData:
    result = PartitionData(
        partition_index=one.number,
        error_code=read.error,
        records=read.records,
        acquired_records=[
            AcquiredRecords(
                first_offset=found.first_offset,
                last_offset=found.last_offset,
                delivery_count=found.delivery_count,
            )
            for found in read.acquired
        ],
    )
    if outcome is not None:
        result.acknowledge_error_code = outcome.error
        result.acknowledge_error_message = outcome.message
    return result
