"""ShareAcknowledge, key 79: a member says what became of records, without fetching (KIP-932).

The answer leaves when what was said is written. Epoch -1 ends the session, and what the member
holds then goes back to the others.

| version | what is new |
|---|---|
| 1 | the first that is served |
| 2 | locks can be renewed (KIP-1222); the answer has their time |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.share_sessions import (
    acknowledge,
    acknowledged,
    outcomes_of,
    problem,
)
from kaa.limits import SHARE_PARTITIONS_PER_TURN_MAX
from kaa.model.turns import in_turns
from kaa.net.pending import Pending
from kaa.serving.leader_hints import HINTED, HintedLeaders
from kaa.serving.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSessionError
from kaa.wire.errors import Errors
from kaa.wire.messages.k79_share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.handlers.share_sessions import AcknowledgeOutcome
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k79_share_acknowledge import ShareAcknowledgeRequest
    from kaa.wire.primitives import PartitionId, Uuid


def handle(
    services: Services, request: ShareAcknowledgeRequest, context: RequestContext
) -> Answer[ShareAcknowledgeResponse]:
    return Pending(_acknowledge(services, request, context))


async def _acknowledge(
    services: Services, request: ShareAcknowledgeRequest, context: RequestContext
) -> ShareAcknowledgeResponse:
    refused = problem(services, request.group_id, request.member_id)
    if refused is not None:
        return ShareAcknowledgeResponse(error_code=refused)
    group_id, member_id = request.group_id or "", request.member_id or ""
    sessions, epoch = services.share_partitions.sessions, request.share_session_epoch
    try:
        if epoch == INITIAL_EPOCH:
            raise ShareSessionError(Errors.INVALID_SHARE_SESSION_EPOCH)
        if epoch == FINAL_EPOCH:
            session = sessions.get(group_id, member_id)
        else:
            session = sessions.advance(group_id, member_id, epoch)
    except ShareSessionError as error:
        return ShareAcknowledgeResponse(error_code=error.error)
    batches = acknowledged(request.topics)
    outcomes = await outcomes_of(await acknowledge(services, request, context, batches))
    if epoch == FINAL_EPOCH:
        await services.share_partitions.close(session)
    return await in_turns(_response(services, context, outcomes, group_id))


def _response(
    services: Services,
    context: RequestContext,
    outcomes: dict[PartitionId, AcknowledgeOutcome],
    group_id: str,
) -> Pieces[ShareAcknowledgeResponse]:
    leaders = HintedLeaders(services, context.listener_name)
    topics: dict[Uuid, ShareAcknowledgeTopicResponse] = {}
    for count, (one, outcome) in enumerate(outcomes.items(), 1):
        if count % SHARE_PARTITIONS_PER_TURN_MAX == 0:
            yield
        result = PartitionData(
            partition_index=one.number,
            error_code=outcome.error,
            error_message=outcome.message,
        )
        image = services.image.topics_by_id.get(one.topic_id)
        if outcome.error in HINTED and image is not None:
            hint = leaders.hint(image.name, one.number)
            result.current_leader = LeaderIdAndEpoch(
                leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
            )
        topic = topics.setdefault(
            one.topic_id, ShareAcknowledgeTopicResponse(topic_id=one.topic_id)
        )
        topic.partitions.append(result)
    settings = services.share_partitions.settings(group_id)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=settings.partitions().lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=leaders.endpoints(NodeEndpoint),
    )
