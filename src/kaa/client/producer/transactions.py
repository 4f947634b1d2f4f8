"""Transactions of a producer: the calls to coordinators that the machine allows.

One call at a time (`_turn`): a partition must not be added after the end of the transaction that
it was meant for. Calls are repeated while that may help, for at most `max.block.ms`; a commit or
abort that ran out of time may be called again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kaa.client.coordinator import MOVED, CoordinatorType
from kaa.client.errors import (
    ClientError,
    CommitFailedError,
    DisconnectedError,
    KafkaError,
    RequestTimeoutError,
)
from kaa.client.group.consumer_protocol import by_topic
from kaa.client.producer.transaction_machine import TransactionStage
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kaa.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kaa.wire.messages.k26_end_txn import EndTxnRequest
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaa.client.cluster import Cluster
    from kaa.client.group.membership import GroupMetadata
    from kaa.client.group.offsets import OffsetAndMetadata
    from kaa.client.producer.sender import Sender
    from kaa.client.producer.transaction_machine import TransactionMachine
    from kaa.config.definition import ConfigValues
    from kaa.wire.schema import Request

_FEATURE: Final = "transaction.version"
# The last versions for clients that tell the coordinator of partitions and offsets themselves.
_ADD_PARTITIONS_VERSION: Final = 3
_EXPLICIT_END_VERSION: Final = 4
_EXPLICIT_OFFSETS_VERSION: Final = 4
_TWO_PHASE_VERSION: Final = 6
_NOT_A_MEMBER: Final = frozenset(
    {Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION, Errors.FENCED_INSTANCE_ID}
)


class Transactions:
    """Carries out the transactional calls of a producer. Calls wait for each other; each raises
    when `max.block.ms` has passed, and may then be repeated.
    """

    def __init__(
        self, values: ConfigValues, cluster: Cluster, sender: Sender, machine: TransactionMachine
    ) -> None:
        self._values = values
        self._cluster = cluster
        self._sender = sender
        self._machine = machine
        self._id = machine.transactional_id
        self._timeout_ms = values.get_int("max.block.ms")
        self._turn = asyncio.Lock()
        self._version = 0
        sender.add_partitions = self.add_partitions

    # --- life

    async def init(self) -> None:
        """Gets an id and an epoch for the producer, which fences those before it."""
        self._machine.check_uninitialized()
        async with self._turn:
            await self._new_epoch(-1, -1)
            self._machine.initialized()

    async def _new_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Gets an identity: a new one, or a new epoch of the one that the producer has."""
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._values.get_int("transaction.timeout.ms"),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        what = f"cannot initialise transactional id {self._id!r}"
        # Two-phase commit is for those who ask for it: the admin client can.
        response = await self._call(request, what, highest=_TWO_PHASE_VERSION - 1)
        self._sender.accumulator.begin_epoch(response.producer_id, response.producer_epoch)

    def begin(self) -> None:
        """Begins a transaction; no broker is asked."""
        self._machine.begin(self._version)

    async def commit(self) -> None:
        """Sends everything, then commits; raises if a record could not be delivered."""
        self._machine.commit()
        await self._sender.flush()
        if self._machine.state is TransactionStage.COMMITTING:
            await self._end(committed=True)
        else:
            assert self._machine.error is not None
            raise self._machine.error

    async def abort(self) -> None:
        """Drops what was not sent, then aborts."""
        self._machine.abort()
        self._sender.abort()
        await self._sender.flush()
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        machine, accumulator = self._machine, self._sender.accumulator
        async with self._turn:
            if machine.is_begun_at_the_coordinator:
                request = EndTxnRequest(
                    transactional_id=self._id,
                    producer_id=accumulator.producer_id,
                    producer_epoch=accumulator.producer_epoch,
                    committed=committed,
                )
                word = "commit" if committed else "abort"
                highest = None if machine.is_implicit else _EXPLICIT_END_VERSION
                response = await self._call(request, f"cannot {word}", highest=highest)
                if response.producer_epoch >= 0:
                    accumulator.begin_epoch(response.producer_id, response.producer_epoch)
                    machine.needs_epoch = False
            if machine.needs_epoch or accumulator.needs_new_epoch:
                await self._new_epoch(accumulator.producer_id, accumulator.producer_epoch)
            machine.ended()

    # --- partitions and offsets

    async def add_partitions(self) -> None:
        """Tells the coordinator of the partitions that are new."""
        async with self._turn:
            partitions = self._machine.take_new()
            if not partitions:
                return
            accumulator = self._sender.accumulator
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=accumulator.producer_id,
                v3_and_below_producer_epoch=accumulator.producer_epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=numbers)
                    for name, numbers in by_topic(partitions).items()
                ],
            )
            try:
                await self._call(
                    request,
                    "cannot add partitions to the transaction",
                    highest=_ADD_PARTITIONS_VERSION,
                    error_of=_worst_partition,
                )
            except ClientError as error:
                # Records of these partitions fail, and the transaction with them.
                self._machine.failed(error, is_of_coordinator=True)
                self._sender.abort()
                return
            self._machine.partitions_added(partitions)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Makes offsets of a group part of the transaction."""
        self._machine.check_open("cannot send offsets to the transaction")
        if not offsets:
            return
        machine, accumulator = self._machine, self._sender.accumulator
        async with self._turn:
            machine.has_offsets = True
            if not machine.is_implicit:
                added = AddOffsetsToTxnRequest(
                    transactional_id=self._id,
                    producer_id=accumulator.producer_id,
                    producer_epoch=accumulator.producer_epoch,
                    group_id=group.group_id,
                )
                await self._call(added, f"cannot add group {group.group_id!r} to the transaction")
            request = TxnOffsetCommitRequest(
                transactional_id=self._id,
                group_id=group.group_id,
                producer_id=accumulator.producer_id,
                producer_epoch=accumulator.producer_epoch,
                generation_id=group.generation_id,
                member_id=group.member_id,
                group_instance_id=group.instance_id,
                topics=_topics(offsets),
            )
            await self._call(
                request,
                f"cannot commit offsets of group {group.group_id!r} in the transaction",
                highest=None if machine.is_implicit else _EXPLICIT_OFFSETS_VERSION,
                error_of=_worst_offset,
                kind=CoordinatorType.GROUP,
                key=group.group_id,
            )

    # --- calls

    async def _call(
        self,
        request: Request,
        what: str,
        *,
        highest: int | None = None,
        error_of: Callable[[Any], int] = lambda response: int(response.error_code),
        kind: CoordinatorType = CoordinatorType.TRANSACTION,
        key: str | None = None,
    ) -> Any:
        """A request to a coordinator; what fails for good goes to the machine and is raised."""
        name = self._id if key is None else key

        async def attempt() -> Any:
            connection = await self._cluster.coordinators.connection(kind, name)
            if kind is CoordinatorType.TRANSACTION:
                self._version = connection.finalized_features().get(_FEATURE, 0)
            version = connection.version_of(ApiKey(request.api_key), highest)
            try:
                response = await connection.request(request, version=version)
            except (DisconnectedError, RequestTimeoutError):
                self._cluster.coordinators.forget(kind, name)
                raise
            error = Errors.of(error_of(response))
            if error is Errors.NONE:
                return response
            if error in MOVED:
                self._cluster.coordinators.forget(kind, name)
            failure = CommitFailedError if error in _NOT_A_MEMBER else KafkaError
            raise failure(error, what, node=connection.address)

        try:
            return await self._cluster.repeat(attempt, what, self._timeout_ms)
        except ClientError as error:
            if error.retriable:
                raise
            raise self._machine.failed(error, is_of_coordinator=True) from None


def _topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> list[TxnOffsetCommitRequestTopic]:
    return [
        TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offsets[TopicPartition(name, number)].offset,
                    committed_leader_epoch=offsets[TopicPartition(name, number)].leader_epoch,
                    committed_metadata=offsets[TopicPartition(name, number)].metadata,
                )
                for number in numbers
            ],
        )
        for name, numbers in by_topic(offsets).items()
    ]


def _worst_partition(response: Any) -> int:
    return _worst(
        row.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    )


def _worst_offset(response: Any) -> int:
    return _worst(row.error_code for topic in response.topics for row in topic.partitions)


def _worst(codes: Iterable[int]) -> int:
    """The error that decides: one that does not pass before one that may, skipped ones last."""
    found = [code for code in codes if code]
    found.sort(key=lambda code: (code == Errors.OPERATION_NOT_ATTEMPTED, Errors.of(code).retriable))
    return found[0] if found else 0
