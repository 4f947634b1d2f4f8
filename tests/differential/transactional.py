"""Steps of cases with transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import ProduceRequest
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kaa.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kaa.wire.messages.k26_end_txn import EndTxnRequest
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.differential.helpers import produce, records

if TYPE_CHECKING:
    from tests.differential.case import World

_ATTEMPTS = 1_000


class Transactional(NamedTuple):
    """A producer with a transactional id; its requests."""

    name: str
    producer_id: int = 1_000_000
    epoch: int = 0

    def raised(self, by: int = 1) -> Transactional:
        return self._replace(epoch=self.epoch + by)

    def init(self, **fields: Any) -> InitProducerIdRequest:
        fields.setdefault("transaction_timeout_ms", 60_000)
        return InitProducerIdRequest(transactional_id=self.name, **fields)

    def add(self, version: int, *partitions: tuple[str, int]) -> AddPartitionsToTxnRequest:
        transaction = self.transaction(*partitions)
        if version >= 4:
            return AddPartitionsToTxnRequest(transactions=[transaction])
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=transaction.topics,
        )

    def transaction(
        self, *partitions: tuple[str, int], verify_only: bool = False
    ) -> AddPartitionsToTxnTransaction:
        by_topic: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, number in partitions:
            found = by_topic.setdefault(topic, AddPartitionsToTxnTopic(name=topic, partitions=[]))
            found.partitions.append(number)
        return AddPartitionsToTxnTransaction(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            verify_only=verify_only,
            topics=list(by_topic.values()),
        )

    def add_offsets(self, group: str = "g") -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )

    def end(self, *, is_commit: bool = True) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )

    def commit_offsets(
        self, group: str, *partitions: tuple[str, int], metadata: str = "", **fields: Any
    ) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=5,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for topic, number in partitions
            ],
            **fields,
        )

    def batch(self, sequence: int = 0, *values: bytes) -> bytes:
        return records(
            *(values or (b"value",)),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def produce(self, world: World, sequence: int = 0, word: str = "t") -> ProduceRequest:
        """Version 12 or older."""
        request = produce(world, self.batch(sequence), word)
        request.transactional_id = self.name
        return request


def started(world: World, word: str = "id", **fields: Any) -> Transactional:
    """A producer that was initialised; how often one has to ask is not to be compared."""
    nobody = Transactional(world.name(word))
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[nobody.name])
    for _ in range(_ATTEMPTS):
        if world.peer.ask(request, 6).coordinators[0].error_code == Errors.NONE:
            break
    for _ in range(_ATTEMPTS):
        answer = world.peer.ask(nobody.init(**fields), 5)
        if answer.error_code == Errors.NONE:
            return nobody._replace(producer_id=answer.producer_id, epoch=answer.producer_epoch)
    raise AssertionError(f"{world.peer.name} did not start {nobody.name}")


def wait_for_groups(world: World) -> None:
    """Waits until the offsets topic is there and loaded."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    for _ in range(_ATTEMPTS):
        if world.peer.ask(request, 6).coordinators[0].error_code == Errors.NONE:
            return
    raise AssertionError(f"{world.peer.name} has no coordinator of groups")


def settled(world: World, producer: Transactional) -> None:
    """Waits until the markers of a decision are written."""
    request = DescribeTransactionsRequest(transactional_ids=[producer.name])
    for _ in range(_ATTEMPTS):
        (found,) = world.peer.ask(request, 0).transaction_states
        if not found.transaction_state.startswith("Prepare"):
            return
    raise AssertionError(f"{world.peer.name} does not end {producer.name}")
