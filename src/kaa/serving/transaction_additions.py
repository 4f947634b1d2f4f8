"""AddPartitionsToTxn as the coordinator answers it, for clients (versions 0 to 3) and for brokers,
which ask for many transactions at once and may only want to know (version 4 and above, KIP-890).

One partition that does not exist keeps the others of its transaction out as well.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from kaa.wire.errors import Errors
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.transaction.state import PartitionName
    from kaa.serving.services import Services
    from kaa.wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest

_BATCH_VERSION: Final = 4
# Before it, clients did not know PRODUCER_FENCED.
_FENCED_VERSION: Final = 2


async def add_partitions(
    services: Services, request: AddPartitionsToTxnRequest, version: int
) -> AddPartitionsToTxnResponse:
    if version >= _BATCH_VERSION:
        asked = [_transaction(services, each, version) for each in request.transactions]
        # All at once: each waits for what it has written to be committed.
        found = [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked)
        results = [
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id, topic_results=_by_topic(errors)
            )
            for each, errors in zip(request.transactions, found, strict=True)
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    one = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        verify_only=False,
        topics=request.v3_and_below_topics,
    )
    errors = await _transaction(services, one, version)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(errors))


async def _transaction(
    services: Services, asked: AddPartitionsToTxnTransaction, version: int
) -> Mapping[PartitionName, Errors]:
    names = [(topic.name, number) for topic in asked.topics for number in topic.partitions]
    missing = [name for name in names if not _exists(services, name)]
    if missing:
        errors = dict.fromkeys(names, Errors.OPERATION_NOT_ATTEMPTED)
        errors.update(dict.fromkeys(missing, Errors.UNKNOWN_TOPIC_OR_PARTITION))
        return errors
    producer = (asked.producer_id, asked.producer_epoch)
    coordinator = services.transactions
    if asked.verify_only:
        return await coordinator.verify_partitions(
            asked.transactional_id, producer, frozenset(names)
        )
    error = await coordinator.add_partitions(
        asked.transactional_id,
        producer,
        frozenset(names),
        2 if version >= _BATCH_VERSION else 0,
    )
    return dict.fromkeys(names, told_fenced(error, is_known=version >= _FENCED_VERSION))


def told_fenced(error: Errors, *, is_known: bool) -> Errors:
    """Old clients know a fenced producer by another error."""
    if error is Errors.PRODUCER_FENCED and not is_known:
        return Errors.INVALID_PRODUCER_EPOCH
    return error


def _exists(services: Services, name: PartitionName) -> bool:
    topic = services.image.topics.get(name[0])
    return topic is not None and name[1] in topic.partitions


def _by_topic(errors: Mapping[PartitionName, Errors]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = defaultdict(list)
    pairs: Iterable[tuple[PartitionName, Errors]] = errors.items()
    for (topic, number), error in pairs:
        topics[topic].append(
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
        )
    return [
        AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results)
        for topic, results in topics.items()
    ]
