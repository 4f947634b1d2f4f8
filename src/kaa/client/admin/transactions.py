"""Transactions for the admin client: who has one open, and how to end one that nobody will.

A transaction hangs when a partition has it open and its coordinator knows nothing of it, so that it
holds up readers of committed records for ever. `find_hanging_transactions` asks both sides;
`abort_transaction` writes the marker that ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.client.admin.base import AdminBase
from kaa.client.arguments import INT16_MAX, names_of, partition_of, partitions_of, whole_number
from kaa.client.coordinator import CoordinatorType, ask_coordinator, ask_coordinators
from kaa.client.errors import KafkaError
from kaa.client.group.consumer_protocol import by_topic
from kaa.model.topics import NO_OFFSET, TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kaa.wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.client.admin.base import Outcome
    from kaa.client.connection import Connection

_TRANSACTION_TIMEOUT_MS: Final = 60_000
# The first versions that can filter by age and by pattern, and that know of two-phase commit.
_LIST_DURATION_VERSION: Final = 1
_LIST_PATTERN_VERSION: Final = 2
_TWO_PHASE_VERSION: Final = 6


class TransactionListing(NamedTuple):
    """A transaction in a list."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


class TransactionDescription(NamedTuple):
    """A transaction as its coordinator knows it; the start is -1 where none is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]
    coordinator: str


class ProducerState(NamedTuple):
    """A producer as a partition knows it; -1 where it does not know."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


class HangingTransaction(NamedTuple):
    """An open transaction of a partition that no coordinator will end."""

    partition: TopicPartition
    producer: ProducerState


class ProducerIdentity(NamedTuple):
    """What InitProducerId gave; the last two name a prepared transaction that was kept, or -1."""

    producer_id: int
    producer_epoch: int
    ongoing_producer_id: int = -1
    ongoing_producer_epoch: int = -1


class TransactionAdmin(AdminBase):
    """The part of the admin client that is about transactions."""

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        running_longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactions of all coordinators by id; states are Kafka's words."""
        whole_number(running_longer_than_ms, "running_longer_than_ms", least=-1)
        request = ListTransactionsRequest(
            state_filters=names_of(states, "state"),
            producer_id_filters=[whole_number(one, "a producer id") for one in producer_ids],
            duration_filter=running_longer_than_ms,
            transactional_id_pattern=pattern,
        )
        lowest = 0
        if running_longer_than_ms >= 0:
            lowest = _LIST_DURATION_VERSION
        if pattern is not None:
            lowest = _LIST_PATTERN_VERSION
        found: list[TransactionListing] = []
        for node_id in await self._node_ids():
            rows = await self._list_transactions_of(node_id, request, lowest)
            found += [
                TransactionListing(
                    row.transactional_id, row.producer_id, row.transaction_state, node_id
                )
                for row in rows
            ]
        return sorted(found)

    async def _list_transactions_of(
        self, node_id: int, request: ListTransactionsRequest, lowest: int
    ) -> list[Any]:
        what = "list of transactions"

        async def attempt() -> list[Any]:
            connection = await self.cluster.connection(node_id)
            connection.require(ApiKey.LIST_TRANSACTIONS, lowest, "this filter")
            response = await connection.request(request)
            if response.error_code:
                raise KafkaError(Errors.of(response.error_code), what, node=connection.address)
            if response.unknown_state_filters:
                unknown = ", ".join(response.unknown_state_filters)
                raise KafkaError(
                    Errors.INVALID_REQUEST,
                    what,
                    message=f"no transaction is ever in a state named {unknown}",
                    node=connection.address,
                )
            return list(response.transaction_states)

        rows: list[Any] = await self.cluster.repeat(attempt, what, self._timeout_ms)
        return rows

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Transactions by id; an id that is unknown has its error."""

        async def ask(
            connection: Connection, some: list[str]
        ) -> dict[str, TransactionDescription | KafkaError]:
            response = await connection.request(DescribeTransactionsRequest(transactional_ids=some))
            return {
                row.transactional_id: KafkaError(
                    Errors.of(row.error_code),
                    f"transactional id {row.transactional_id!r}",
                    node=connection.address,
                )
                if row.error_code
                else _description(row, connection.address)
                for row in response.transaction_states
            }

        return await ask_coordinators(
            self.cluster,
            CoordinatorType.TRANSACTION,
            names_of(transactional_ids, "transactional id"),
            "description of transactions",
            self._timeout_ms,
            ask,
        )

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """One transaction; raises KafkaError if there is no such transaction."""
        found = (await self.describe_transactions([transactional_id]))[transactional_id]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
        """The producers that partitions remember, asked of their leaders or of one replica."""
        found: dict[TopicPartition, tuple[ProducerState, ...] | KafkaError] = {}
        wanted = partitions_of(partitions)

        async def attempt() -> None:
            left = [partition for partition in wanted if partition not in found]
            for name in {partition.topic for partition in left}:
                await self.cluster.topic(name, self._timeout_ms)
            by_node: dict[int, list[TopicPartition]] = {}
            for one in left:
                node_id = self.cluster.leader_or_raise(*one) if broker_id is None else broker_id
                by_node.setdefault(node_id, []).append(one)
            for node_id, some in by_node.items():
                connection = await self.cluster.connection(node_id)
                self._take_producers(await connection.request(_producers_of(some)), found)

        topics = {partition.topic for partition in wanted}
        what = "description of producers"
        await self.cluster.repeat(attempt, what, self._timeout_ms, refresh=topics)
        return found

    def _take_producers(
        self, response: Any, found: dict[TopicPartition, tuple[ProducerState, ...] | KafkaError]
    ) -> None:
        """Keeps what was answered; raises for a partition whose leader moved."""
        for topic in response.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if not row.error_code:
                    found[partition] = tuple(_producer(one) for one in row.active_producers)
                    continue
                error = KafkaError(
                    Errors.of(row.error_code),
                    f"producers of {partition}",
                    message=row.error_message,
                )
                if error.error is Errors.NOT_LEADER_OR_FOLLOWER:
                    raise error
                found[partition] = error

    async def find_hanging_transactions(
        self,
        now_ms: int,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: int = 15 * 60_000,
    ) -> list[HangingTransaction]:
        """Open transactions older than any may be, of which no coordinator knows.

        Looks at these partitions, or at all, or at all that a broker leads.
        """
        wanted = partitions
        if wanted is None:
            wanted = await self._partitions_of(broker_id)
        candidates = [
            HangingTransaction(partition, producer)
            for partition, producers in (await self.describe_producers(wanted)).items()
            if not isinstance(producers, KafkaError)
            for producer in producers
            if producer.transaction_start_offset != NO_OFFSET
            and now_ms - producer.last_timestamp_ms > max_transaction_timeout_ms
        ]
        if not candidates:
            return []
        producer_ids = sorted({one.producer.producer_id for one in candidates})
        listed = await self.list_transactions(producer_ids=producer_ids)
        described = await self.describe_transactions({one.transactional_id for one in listed})
        known = {
            (one.producer_id, partition)
            for one in described.values()
            if not isinstance(one, KafkaError)
            for partition in one.partitions
        }
        return [one for one in candidates if (one.producer.producer_id, one.partition) not in known]

    async def _partitions_of(self, broker_id: int | None) -> list[TopicPartition]:
        async def attempt() -> list[TopicPartition]:
            metadata = await self.cluster.fetch_metadata(None)
            return [
                TopicPartition(topic.name, one.partition)
                for topic in metadata.topics.values()
                for one in topic.partitions
                if broker_id in {None, one.leader_id}
            ]

        found: list[TopicPartition] = await self.cluster.repeat(
            attempt, "metadata", self._timeout_ms
        )
        return found

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
    ) -> None:
        """Writes an abort marker to one partition, for a transaction that hangs."""
        partition = partition_of(partition)
        whole_number(producer_id, "a producer id")
        whole_number(producer_epoch, "a producer epoch", most=INT16_MAX)
        what = f"cannot abort the transaction of producer {producer_id} in {partition}"

        async def attempt() -> None:
            await self.cluster.topic(partition.topic, self._timeout_ms)
            connection = await self.cluster.connection(self.cluster.leader_or_raise(*partition))
            marker = WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=False,
                topics=[
                    WritableTxnMarkerTopic(
                        name=partition.topic, partition_indexes=[partition.partition]
                    )
                ],
                coordinator_epoch=max(0, coordinator_epoch),
            )
            response = await connection.request(WriteTxnMarkersRequest(markers=[marker]))
            row = response.markers[0].topics[0].partitions[0]
            if row.error_code:
                raise KafkaError(Errors.of(row.error_code), what, node=connection.address)

        await self.cluster.repeat(attempt, what, self._timeout_ms, refresh=[partition.topic])

    async def fence_producers(self, transactional_ids: Iterable[str]) -> Outcome:
        """Ends the open transactions of these ids and shuts their producers out."""
        outcome: Outcome = {}
        for transactional_id in names_of(transactional_ids, "transactional id"):
            try:
                await self.init_producer_id(transactional_id)
            except KafkaError as error:
                outcome[transactional_id] = error
            else:
                outcome[transactional_id] = None
        return outcome

    async def init_producer_id(
        self,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = _TRANSACTION_TIMEOUT_MS,
        enable_two_phase_commit: bool = False,
        keep_prepared_transaction: bool = False,
    ) -> ProducerIdentity:
        """A new epoch for a transactional id, which fences who had it.

        The flags are those of InitProducerId version 6 (KIP-939): a transaction that only its owner
        may end, and keeping the one that is prepared instead of aborting it.
        """
        what = f"cannot initialise transactional id {transactional_id!r}"
        two_phase = enable_two_phase_commit or keep_prepared_transaction
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            enable_2pc=enable_two_phase_commit,
            keep_prepared_txn=keep_prepared_transaction,
        )

        async def ask(connection: Connection) -> ProducerIdentity | KafkaError:
            version = None
            if two_phase:
                connection.require(ApiKey.INIT_PRODUCER_ID, _TWO_PHASE_VERSION, "two-phase commit")
                version = _TWO_PHASE_VERSION
            response = await connection.request(request, version=version)
            if response.error_code:
                error = KafkaError(Errors.of(response.error_code), what, node=connection.address)
                if error.error is Errors.CONCURRENT_TRANSACTIONS:
                    raise error
                return error
            return ProducerIdentity(
                response.producer_id,
                response.producer_epoch,
                response.ongoing_txn_producer_id,
                response.ongoing_txn_producer_epoch,
            )

        return await ask_coordinator(
            self.cluster,
            CoordinatorType.TRANSACTION,
            transactional_id,
            what,
            self._timeout_ms,
            ask,
        )


def _description(row: Any, coordinator: str) -> TransactionDescription:
    return TransactionDescription(
        row.transactional_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms,
        tuple(
            TopicPartition(topic.topic, partition)
            for topic in row.topics
            for partition in topic.partitions
        ),
        coordinator,
    )


def _producers_of(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[
            TopicRequest(name=name, partition_indexes=numbers)
            for name, numbers in by_topic(partitions).items()
        ]
    )


def _producer(row: Any) -> ProducerState:
    return ProducerState(
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        row.last_timestamp,
        row.coordinator_epoch,
        row.current_txn_start_offset,
    )
