"""Records of the transaction-state topic."""

from kaa.wire.schema import (
    CoordinatorKey,
    CoordinatorValue,
    Int8,
    Int16,
    Int32,
    Int64,
    Struct,
    field,
)


class TransactionLogKey(CoordinatorKey, record_type=0, versions="0"):
    """The transactional id."""

    transactional_id: str = field("0")


class PartitionsSchema(Struct):
    topic: str = field("0+")
    partition_ids: list[Int32] = field("0+")


class TransactionLogValue(CoordinatorValue, record_type=0, versions="0-1", flexible="1+"):
    """The state of a transaction."""

    producer_id: Int64 = field("0+")
    previous_producer_id: Int64 = field("1+", default=-1, tag=0)
    next_producer_id: Int64 = field("1+", default=-1, tag=1)
    producer_epoch: Int16 = field("0+")
    next_producer_epoch: Int16 = field("1+", default=-1, tag=3)
    transaction_timeout_ms: Int32 = field("0+")
    transaction_status: Int8 = field("0+")
    transaction_partitions: list[PartitionsSchema] | None = field("0+")
    transaction_last_update_timestamp_ms: Int64 = field("0+")
    transaction_start_timestamp_ms: Int64 = field("0+")
    client_transaction_version: Int16 = field("1+", tag=2)
