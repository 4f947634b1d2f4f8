"""Requests about a transaction by anyone who knows its name, producer id and epoch.

The versions used are those in which partitions are added by a request of their own and an epoch
lasts over several transactions, so that what is written down about a transaction stays true until
it is completed; every Kafka from 2.5 on takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.client.coordinator import CoordinatorType, ask_coordinator
from kaa.client.errors import KafkaError
from kaa.spark.once.machine import Entry
from kaa.wire.errors import Errors
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kaa.wire.messages.k26_end_txn import EndTxnRequest
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.client.admin.admin import Admin
    from kaa.client.cluster import Cluster
    from kaa.client.connection import Connection
    from kaa.model.topics import TopicPartition

_ADD_PARTITIONS_VERSION: Final = 3
_END_VERSION: Final = 4
_TWO_PHASE_VERSION: Final = 6
ONGOING: Final = "Ongoing"


async def init_transaction(admin: Admin, transactional_id: str, timeout_ms: int) -> Entry:
    """A new epoch for a name: its former owner is fenced, an open transaction is aborted."""
    identity = await admin.init_producer_id(transactional_id, transaction_timeout_ms=timeout_ms)
    return Entry(transactional_id, identity.producer_id, identity.producer_epoch)


async def open_transaction(
    cluster: Cluster, transactional_id: str, transaction_timeout_ms: int, timeout_ms: int
) -> Entry:
    """The same for a task, whose transaction never times out where the broker allows it (KIP-939).

    Brokers that take part in two-phase commit serve the version that can ask for it; they may still
    refuse it to some, who then get a transaction with a timeout.
    """
    what = f"cannot begin transaction {transactional_id!r}"

    async def attempt(connection: Connection, *, is_two_phase: bool) -> Entry | Errors:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            enable_2pc=is_two_phase,
        )
        version = _TWO_PHASE_VERSION if is_two_phase else None
        response = await connection.request(request, version=version)
        if response.error_code:
            return Errors.of(response.error_code)
        return Entry(transactional_id, response.producer_id, response.producer_epoch)

    async def ask(connection: Connection) -> Entry | KafkaError:
        _, highest = connection.versions.get(ApiKey.INIT_PRODUCER_ID, (0, -1))
        outcome: Entry | Errors = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if highest >= _TWO_PHASE_VERSION:
            outcome = await attempt(connection, is_two_phase=True)
        if outcome is Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            outcome = await attempt(connection, is_two_phase=False)
        if not isinstance(outcome, Errors):
            return outcome
        judged = _judged(outcome, what, connection)
        return judged if isinstance(judged, KafkaError) else KafkaError(outcome, what)

    return await ask_coordinator(
        cluster, CoordinatorType.TRANSACTION, transactional_id, what, timeout_ms, ask
    )


async def end_transaction(
    cluster: Cluster, entry: Entry, timeout_ms: int, *, is_commit: bool
) -> Errors:
    """Commits or aborts; NONE also where that was done before. What may pass is tried again."""
    word = "commit" if is_commit else "abort"
    what = f"{word} of transaction {entry.transactional_id}"
    request = EndTxnRequest(
        transactional_id=entry.transactional_id,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        committed=is_commit,
    )

    async def ask(connection: Connection) -> Errors | KafkaError:
        version = connection.version_of(ApiKey.END_TXN, _END_VERSION)
        response = await connection.request(request, version=version)
        return _judged(Errors.of(response.error_code), what, connection)

    name = entry.transactional_id
    return await ask_coordinator(cluster, CoordinatorType.TRANSACTION, name, what, timeout_ms, ask)


async def add_partitions(
    cluster: Cluster, entry: Entry, partitions: Sequence[TopicPartition], timeout_ms: int
) -> None:
    """Makes partitions part of a transaction, before anything is written to them."""
    what = f"new partitions of transaction {entry.transactional_id}"
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=entry.transactional_id,
        v3_and_below_producer_id=entry.producer_id,
        v3_and_below_producer_epoch=entry.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=numbers)
            for name, numbers in topics.items()
        ],
    )

    async def ask(connection: Connection) -> Errors | KafkaError:
        version = connection.version_of(ApiKey.ADD_PARTITIONS_TO_TXN, _ADD_PARTITIONS_VERSION)
        response = await connection.request(request, version=version)
        codes = [
            Errors.of(row.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        ]
        # Where one partition is refused, the others say that they were not tried.
        codes = [code for code in codes if code is not Errors.NONE]
        codes.sort(key=lambda code: code is Errors.OPERATION_NOT_ATTEMPTED)
        return _judged(codes[0] if codes else Errors.NONE, what, connection)

    name = entry.transactional_id
    error = await ask_coordinator(cluster, CoordinatorType.TRANSACTION, name, what, timeout_ms, ask)
    if error is not Errors.NONE:
        raise KafkaError(error, what)


def _judged(error: Errors, what: str, connection: Connection) -> Errors | KafkaError:
    """What `ask_coordinator` wants: raised is tried again, an error ends it, a code is returned."""
    if error is Errors.CONCURRENT_TRANSACTIONS:
        raise KafkaError(error, what, node=connection.address)
    if error.retriable:
        return KafkaError(error, what, node=connection.address)
    return error
