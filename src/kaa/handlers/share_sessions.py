"""What ShareFetch and ShareAcknowledge have in common: who asks, and what is acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.coordinators.share.coordinator import SHARE_FEATURE
from kaa.limits import PARTS_BEGUN_PER_TURN_MAX, SHARE_PARTITIONS_PER_TURN_MAX
from kaa.model.turns import Turns
from kaa.serving.share.machine import RENEW, Acknowledgement, AcknowledgementError
from kaa.wire.errors import Errors
from kaa.wire.primitives import PartitionId

if TYPE_CHECKING:
    import asyncio

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services

# The version that brought locks that are renewed.
RENEW_VERSION: Final = 2
_MEMBER_ID_CHARACTERS_MAX: Final = 36


class AcknowledgeOutcome(NamedTuple):
    """What became of the acknowledgements of a partition."""

    error: Errors
    message: str | None = None


def problem(services: Services, group_id: str | None, member_id: str | None) -> Errors | None:
    """Why a request is refused, whatever its session says. Kafka has no words for it either."""
    if services.image.features.get(SHARE_FEATURE, 0) < 1:
        return Errors.UNSUPPORTED_VERSION
    if group_id is None or not member_id or len(member_id) > _MEMBER_ID_CHARACTERS_MAX:
        return Errors.INVALID_REQUEST
    return None


def acknowledged(topics: Any) -> dict[PartitionId, list[Any]]:
    """The batches of acknowledgements in the topics of a request, by partition."""
    return {
        PartitionId(topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


# By partition, what was refused at once, or what comes when it is written.
Asked = dict[PartitionId, "AcknowledgeOutcome | asyncio.Future[Errors]"]


async def acknowledge(
    services: Services, request: Any, context: RequestContext, batches: dict[PartitionId, list[Any]]
) -> Asked:
    """Begins the acknowledgements of a request, those of very many partitions in turns."""
    has_renew = context.api_version >= RENEW_VERSION
    is_renew = has_renew and request.is_renew_ack
    types_max = RENEW if has_renew else RENEW - 1
    asked: Asked = {}
    turns = Turns(PARTS_BEGUN_PER_TURN_MAX)
    for one, some in batches.items():
        await turns.next()
        if _is_sound(some, types_max=types_max, is_renew=is_renew):
            asked[one] = _acknowledge(services, request, one, some)
        else:
            asked[one] = AcknowledgeOutcome(Errors.INVALID_REQUEST)
    return asked


def _acknowledge(
    services: Services, request: Any, one: PartitionId, batches: list[Any]
) -> AcknowledgeOutcome | asyncio.Future[Errors]:
    topic = services.image.topics_by_id.get(one.topic_id)
    if topic is None:
        return AcknowledgeOutcome(Errors.UNKNOWN_TOPIC_ID)
    if one.number not in topic.partitions:
        return AcknowledgeOutcome(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    acknowledgements = [
        Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
        for batch in batches
    ]
    try:
        return services.share_partitions.acknowledge(
            request.group_id, request.member_id, one, acknowledgements
        )
    except AcknowledgementError as refusal:
        return AcknowledgeOutcome(refusal.error, str(refusal))


async def outcomes_of(asked: Asked) -> dict[PartitionId, AcknowledgeOutcome]:
    """What became of them, when all are written."""
    outcomes = {}
    turns = Turns(SHARE_PARTITIONS_PER_TURN_MAX)
    for one, found in asked.items():
        await turns.next()
        if isinstance(found, AcknowledgeOutcome):
            outcomes[one] = found
        else:
            outcomes[one] = _outcome(await found)
    return outcomes


def _outcome(error: Errors) -> AcknowledgeOutcome:
    return AcknowledgeOutcome(error, None if error is Errors.NONE else error.message)


def _is_sound(batches: list[Any], *, types_max: int, is_renew: bool) -> bool:
    """Whether the batches are in order, and have types that there are."""
    last = -1
    for batch in batches:
        types = batch.acknowledge_types
        if batch.first_offset > batch.last_offset or batch.first_offset < last or not types:
            return False
        if len(types) > 1 and len(types) != batch.last_offset - batch.first_offset + 1:
            return False
        if any(not 0 <= kind <= types_max for kind in types):
            return False
        if RENEW in types and not is_renew:
            return False
        last = batch.last_offset
    return True
