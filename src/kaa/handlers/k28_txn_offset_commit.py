"""TxnOffsetCommit, key 28: stores positions of a group as part of a transaction.

Partitions that do not exist are refused one by one; the others go to the group coordinator
together, once the transaction coordinator agreed (`serving/transactions/verification`).

Version 3 names the member for which the producer commits (KIP-447), version 4 knows
TRANSACTION_ABORTABLE, and version 5 makes the offsets part of the transaction by itself (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.shard import TransactionalWriter
from kaa.handlers.unknown_partitions import joined, part_topics
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
    from kaa.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest

# Before it, clients did not know COORDINATOR_LOAD_IN_PROGRESS here.
_LOADING_VERSION: Final = 2
_NO_SEQUENCE: Final = -1


def handle(
    services: Services, request: TxnOffsetCommitRequest, context: RequestContext
) -> Answer[TxnOffsetCommitResponse]:
    return Pending(_commit_known(services, request, context))


async def _commit_known(
    services: Services, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    request.topics, refused = await part_topics(
        services.image,
        request.topics,
        TxnOffsetCommitResponseTopic,
        TxnOffsetCommitResponsePartition,
    )
    response = TxnOffsetCommitResponse(topics=[])
    if request.topics:
        response = await _commit(services, request, context.api_version)
    response.topics = joined(refused, response.topics)
    if context.api_version < _LOADING_VERSION:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS:
                    partition.error_code = Errors.COORDINATOR_NOT_AVAILABLE
    return response


async def _commit(
    services: Services, request: TxnOffsetCommitRequest, version: int
) -> TxnOffsetCommitResponse:
    if not request.group_id:
        return _uncommitted(request, Errors.INVALID_GROUP_ID)
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
            return _uncommitted(
                request, Errors.COORDINATOR_LOAD_IN_PROGRESS if is_network else error
            )
    writer = TransactionalWriter(*producer, guard)
    return await services.groups.commit_transactional_offsets(
        request, writer, lambda error: _uncommitted(request, error.error)
    )


def _uncommitted(request: TxnOffsetCommitRequest, error: Errors) -> TxnOffsetCommitResponse:
    """The same error for every partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
