"""AddPartitionsToTxn as the coordinator answers it, for clients (versions 0 to 3) and for brokers,
which ask for many transactions at once and may only want to know (version 4 and above, KIP-890).

One partition that does not exist keeps the others of its transaction out as well.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Final

from kaa.limits import (
    NAMES_ANSWERED_PER_SLICE_MAX,
    PARTS_BEGUN_PER_TURN_MAX,
    TRANSACTION_PARTITIONS_PER_TURN_MAX,
)
from kaa.model.turns import Turns, in_turns
from kaa.wire.errors import Errors
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaa.coordinators.transaction.coordinator import TransactionCoordinator
    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName
    from kaa.serving.view import NodeView
    from kaa.wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnTopic

NEWEST_VERSION: Final = AddPartitionsToTxnRequest.valid_versions.high
_BATCH_VERSION: Final = 4
# Before it, clients did not know PRODUCER_FENCED.
_FENCED_VERSION: Final = 2


class Additions:
    """Answers AddPartitionsToTxn, with an error for each partition."""

    def __init__(self, view: NodeView, coordinator: TransactionCoordinator) -> None:
        self._view = view
        self._coordinator = coordinator

    async def answer(
        self, request: AddPartitionsToTxnRequest, version: int
    ) -> AddPartitionsToTxnResponse:
        if version >= _BATCH_VERSION:
            response = AddPartitionsToTxnResponse(results_by_transaction=[])
            turns = Turns(PARTS_BEGUN_PER_TURN_MAX)
            found = await self._added(request.transactions, version)
            for each, errors in zip(request.transactions, found, strict=True):
                await turns.next()
                result = AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=await in_turns(_by_topic(errors)),
                )
                response.results_by_transaction.append(result)
            return response
        one = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            verify_only=False,
            topics=request.v3_and_below_topics,
        )
        errors = await self.add(one, version)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=await in_turns(_by_topic(errors))
        )

    async def _added(
        self, transactions: Sequence[AddPartitionsToTxnTransaction], version: int
    ) -> list[Mapping[PartitionName, Errors]]:
        """Nobody waits for another: each waits for what it has written to be committed."""
        if len(transactions) == 1:
            return [await self.add(transactions[0], version)]
        turns = Turns(PARTS_BEGUN_PER_TURN_MAX)
        found: list[Mapping[PartitionName, Errors]] = [{}] * len(transactions)

        async def add(place: int) -> None:
            found[place] = await self.add(transactions[place], version)

        # To forget thousands of tasks takes its time, so that none is kept when it is done.
        async with asyncio.TaskGroup() as tasks:
            for place in range(len(transactions)):
                await turns.next()
                tasks.create_task(add(place))
        return found

    async def add(
        self, asked: AddPartitionsToTxnTransaction, version: int = NEWEST_VERSION
    ) -> Mapping[PartitionName, Errors]:
        """What becomes of each partition of one transaction."""
        names = await in_turns(_names(asked.topics))
        missing = await in_turns(self._missing(names))
        if missing:
            errors = dict.fromkeys(names, Errors.OPERATION_NOT_ATTEMPTED)
            errors.update(dict.fromkeys(missing, Errors.UNKNOWN_TOPIC_OR_PARTITION))
            return errors
        producer = (asked.producer_id, asked.producer_epoch)
        if asked.verify_only:
            return await self._coordinator.verify_partitions(
                asked.transactional_id, producer, frozenset(names)
            )
        is_known = version >= _FENCED_VERSION
        return await self._coordinator.add_partitions(
            asked.transactional_id,
            producer,
            frozenset(names),
            2 if version >= _BATCH_VERSION else 0,
            lambda error: dict.fromkeys(names, fenced_for_client(error, is_known=is_known)),
        )

    def _missing(self, names: Sequence[PartitionName]) -> Pieces[list[PartitionName]]:
        missing = []
        topics = self._view.image.topics
        for count, name in enumerate(names, 1):
            topic = topics.get(name[0])
            if topic is None or name[1] not in topic.partitions:
                missing.append(name)
            if count % TRANSACTION_PARTITIONS_PER_TURN_MAX == 0:
                yield
        if len(names) > TRANSACTION_PARTITIONS_PER_TURN_MAX:
            # What follows has to do with all of them at once.
            yield
        return missing


def _names(topics: Iterable[AddPartitionsToTxnTopic]) -> Pieces[list[PartitionName]]:
    names: list[PartitionName] = []
    spent = 0
    for topic in topics:
        rest = iter(topic.partitions)
        while some := list(islice(rest, NAMES_ANSWERED_PER_SLICE_MAX)):
            names += [(topic.name, number) for number in some]
            spent += len(some)
            if spent >= NAMES_ANSWERED_PER_SLICE_MAX:
                spent = 0
                yield
        spent += 1
        if spent >= NAMES_ANSWERED_PER_SLICE_MAX:
            spent = 0
            yield
    return names


def fenced_for_client(error: Errors, *, is_known: bool) -> Errors:
    """Old clients know a fenced producer by another error."""
    if error is Errors.PRODUCER_FENCED and not is_known:
        return Errors.INVALID_PRODUCER_EPOCH
    return error


def _by_topic(
    errors: Mapping[PartitionName, Errors],
) -> Pieces[list[AddPartitionsToTxnTopicResult]]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = defaultdict(list)
    for count, ((topic, number), error) in enumerate(errors.items(), 1):
        topics[topic].append(
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
        )
        if count % TRANSACTION_PARTITIONS_PER_TURN_MAX == 0:
            yield
    return [
        AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results)
        for topic, results in topics.items()
    ]
