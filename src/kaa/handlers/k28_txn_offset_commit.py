"""TxnOffsetCommit, key 28: stores positions of a group as part of a transaction.

Partitions that do not exist are refused one by one; the others go to the group coordinator
together, once the transaction coordinator agreed (`serving/transactions/verification`).

Version 3 names the member for which the producer commits (KIP-447), version 4 knows
TRANSACTION_ABORTABLE, and version 5 makes the offsets part of the transaction by itself (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.shard import TransactionalWriter
from kaa.handlers.unknown_partitions import all_refused, joined, part_topics
from kaa.model.pieces import finish
from kaa.model.topics import CONSUMER_OFFSETS
from kaa.net.pending import Pending
from kaa.serving.transactions.verification import offset_commit_operation
from kaa.wire.errors import Errors
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k28_txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestTopic,
    )

# Before it, clients did not know COORDINATOR_LOAD_IN_PROGRESS here.
_LOADING_VERSION: Final = 2
_OLD_ERRORS: Final = {Errors.COORDINATOR_LOAD_IN_PROGRESS: Errors.COORDINATOR_NOT_AVAILABLE}
_NO_SEQUENCE: Final = -1


def handle(
    services: Services, request: TxnOffsetCommitRequest, context: RequestContext
) -> Answer[TxnOffsetCommitResponse]:
    return Pending(_commit_known(services, request, context))


async def _commit_known(
    services: Services, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    request.topics, refused = await part_topics(
        request.topics,
        lambda topic: services.image.topics.get(topic.name),
        _topic,
        TxnOffsetCommitResponsePartition,
    )
    response = TxnOffsetCommitResponse(topics=[])
    if request.topics:
        committed = await _commit(services, request, context.api_version)
        if isinstance(committed, Errors):
            if context.api_version < _LOADING_VERSION:
                committed = _OLD_ERRORS.get(committed, committed)
            response.topics = await all_refused(
                request.topics, committed, _topic, TxnOffsetCommitResponsePartition
            )
        else:
            response = committed
    response.topics = joined(refused, response.topics)
    return response


async def _commit(
    services: Services, request: TxnOffsetCommitRequest, version: int
) -> TxnOffsetCommitResponse | Errors:
    """The answer, or the error that every partition gets."""
    if not request.group_id:
        return Errors.INVALID_GROUP_ID
    producer = (request.producer_id, request.producer_epoch)
    name = (CONSUMER_OFFSETS, services.groups.partition_for(request.group_id))
    operation = offset_commit_operation(version)
    guards = finish(services.verification.start(producer, {name: _NO_SEQUENCE}, operation))
    guard = guards.get(name)
    if guard is not None:
        verified = await services.verification.finish(
            request.transactional_id, producer, guards, operation
        )
        error = verified.errors.get(name)
        if error is not None:
            is_network = error is Errors.NETWORK_EXCEPTION
            return Errors.COORDINATOR_LOAD_IN_PROGRESS if is_network else error
    writer = TransactionalWriter(*producer, guard)
    return await services.groups.commit_transactional_offsets(
        request, writer, lambda error: error.error
    )


def _topic(
    topic: TxnOffsetCommitRequestTopic, partitions: list[TxnOffsetCommitResponsePartition]
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions)
