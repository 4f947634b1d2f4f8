"""Records of `__transaction_state`: the whole state of a transactional id in each.

Version 1 of the value, which clusters with a transaction.version of 1 and above write, has the
previous and next producer id and the version of the client as tagged fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.machine import NewRecord
from kaa.coordinators.transaction.state import Transaction, TransactionState, by_topic_in_pieces
from kaa.model.pieces import finish, mapped
from kaa.wire.messages.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

if TYPE_CHECKING:
    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName


def transaction_record(
    transactional_id: str,
    transaction: Transaction,
    transaction_version: int,
    partitions: list[PartitionsSchema] | None = None,
) -> NewRecord:
    """`transaction_version` is that of the cluster, `partitions` those of the transaction if they
    are known from another record of it.
    """
    if partitions is None:
        partitions = finish(partitions_of_record(transaction))
    is_tagged = transaction_version >= 1
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=(
            None if transaction.state is TransactionState.EMPTY else partitions
        ),
        transaction_last_update_timestamp_ms=transaction.update_timestamp_ms,
        transaction_start_timestamp_ms=transaction.start_timestamp_ms,
    )
    if is_tagged:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.next_producer_epoch = transaction.next_producer_epoch
        value.client_transaction_version = transaction.client_transaction_version
    return NewRecord(TransactionLogKey(transactional_id=transactional_id), value, int(is_tagged))


def partitions_of_record(transaction: Transaction) -> Pieces[list[PartitionsSchema]]:
    """The partitions as a record has them."""
    numbers = yield from by_topic_in_pieces(transaction.partitions)
    return (
        yield from mapped(
            lambda item: PartitionsSchema(topic=item[0], partition_ids=item[1]), numbers.items()
        )
    )


def tombstone(transactional_id: str) -> NewRecord:
    return NewRecord(TransactionLogKey(transactional_id=transactional_id), None)


def transaction_of_record(
    value: TransactionLogValue,
    last_producer_epoch: int,
    partitions: frozenset[PartitionName] | None = None,
) -> Transaction:
    """`partitions` are those of the record, if its writer has them."""
    if partitions is None:
        partitions = frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        )
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=partitions,
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        last_producer_epoch=last_producer_epoch,
        client_transaction_version=value.client_transaction_version,
    )
