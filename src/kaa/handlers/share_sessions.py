"""What ShareFetch and ShareAcknowledge have in common: who asks, and what is acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.coordinators.share.coordinator import SHARE_FEATURE
from kaa.serving.share.machine import RENEW, Acknowledgement, RefusedError
from kaa.wire.errors import Errors
from kaa.wire.primitives import PartitionId

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services

# The version that brought locks that are renewed.
RENEW_VERSION: Final = 2
_MEMBER_ID_CHARACTERS_MAX: Final = 36
# Errors whose answer names the leader.
HINTED: Final = frozenset({Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH})


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


class Acknowledging:
    """The acknowledgements of one request: begun at once, answered when they are written."""

    def __init__(
        self,
        services: Services,
        group_id: str,
        member_id: str,
        batches: Mapping[PartitionId, list[Any]],
        *,
        types_max: int,
        is_renew: bool,
    ) -> None:
        self._outcomes: dict[PartitionId, AcknowledgeOutcome | asyncio.Future[Errors]] = {}
        for one, some in batches.items():
            if not _is_sound(some, types_max=types_max, is_renew=is_renew):
                self._outcomes[one] = AcknowledgeOutcome(Errors.INVALID_REQUEST)
                continue
            topic = services.image.topics_by_id.get(one.topic_id)
            if topic is None:
                self._outcomes[one] = AcknowledgeOutcome(Errors.UNKNOWN_TOPIC_ID)
                continue
            if one.number not in topic.partitions:
                self._outcomes[one] = AcknowledgeOutcome(Errors.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            acknowledged = [
                Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                for batch in some
            ]
            try:
                self._outcomes[one] = services.share_partitions.acknowledge(
                    group_id, member_id, one, acknowledged
                )
            except RefusedError as refusal:
                self._outcomes[one] = AcknowledgeOutcome(refusal.error, str(refusal))

    async def outcomes(self) -> dict[PartitionId, AcknowledgeOutcome]:
        return {
            one: found if isinstance(found, AcknowledgeOutcome) else _outcome(await found)
            for one, found in self._outcomes.items()
        }


def acknowledge(
    services: Services, request: Any, context: RequestContext, batches: dict[PartitionId, list[Any]]
) -> Acknowledging:
    has_renew = context.api_version >= RENEW_VERSION
    return Acknowledging(
        services,
        request.group_id,
        request.member_id,
        batches,
        types_max=RENEW if has_renew else RENEW - 1,
        is_renew=has_renew and request.is_renew_ack,
    )


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
