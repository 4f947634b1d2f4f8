"""Requests of transactional producers, as tests of their handlers send them."""

from __future__ import annotations

from typing import Any, Protocol

from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kaa.wire.messages.k26_end_txn import EndTxnRequest
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kaa.wire.schema import Request
from tests.support.raw import RawClient
from tests.unit.handlers.support import Node
from tests.unit.log.batches import batch

NAME = "transactional-id"
TOPIC = "t"
# Of Produce, the last without and the first with transactions of version 2.
PRODUCE_OLD = 11
PRODUCE = 12


class Asked(Protocol):
    """A node in memory, or a connection to one that runs."""

    def ask(self, request: Request, version: int | None = None) -> Any: ...

    def wait_for_markers(self) -> None: ...


class LiveNode:
    """A connection to a running node, for producers; anyone who has to wait tries again."""

    def __init__(self, client: RawClient) -> None:
        self._client = client

    def ask(self, request: Request, version: int | None = None) -> Any:
        return self._client.ask(request, version)

    def wait_for_markers(self) -> None:
        """The next request is refused until they are written."""


class TransactionalProducer:
    """A producer that does what it is asked, and remembers what it is."""

    def __init__(self, node: Asked, name: str = NAME, *, version: int = 2) -> None:
        self.node = node
        self.name = name
        self.version = version
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.epoch

    def init(self, version: int = 5, **fields: Any) -> Errors:
        fields.setdefault("transaction_timeout_ms", 60_000)
        answer = self.node.ask(InitProducerIdRequest(transactional_id=self.name, **fields), version)
        if answer.error_code == Errors.NONE:
            self._become(answer.producer_id, answer.producer_epoch)
        return Errors.of(answer.error_code)

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != self.identity:
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    def started(self) -> TransactionalProducer:
        error = self.init()
        while error is Errors.CONCURRENT_TRANSACTIONS:
            self.node.wait_for_markers()
            error = self.init()
        assert error is Errors.NONE
        return self

    def add(self, *partitions: tuple[str, int], version: int = 3) -> Errors:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=[number])
                for topic, number in partitions
            ],
        )
        answer = self.node.ask(request, version)
        (error,) = {
            one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        return Errors.of(error)

    def produce(self, *partitions: tuple[str, int], count: int = 1) -> Errors:
        """One batch for each partition; the error of the last."""
        error = Errors.NONE
        for topic, number in partitions or ((TOPIC, 0),):
            error = self.send(topic, number, count)
        return error

    def send(self, topic: str, number: int, count: int = 1) -> Errors:
        if self.version < 2:
            error = self.add((topic, number))
            if error is not Errors.NONE:
                return error
        sequence = self.sequences.get((topic, number), 0)
        records = batch(
            count,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            sequence=sequence,
            transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[PartitionProduceData(index=number, records=bytes(records))],
                )
            ],
        )
        answer = self.node.ask(request, PRODUCE if self.version >= 2 else PRODUCE_OLD)
        error = Errors.of(answer.responses[0].partition_responses[0].error_code)
        if error is Errors.NONE:
            self.sequences[topic, number] = sequence + count
        return error

    def commit_offset(self, group: str, topic: str, offset: int, version: int = 5) -> Errors:
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        answer = self.node.ask(request, version)
        return Errors.of(answer.topics[0].partitions[0].error_code)

    def end(self, *, is_commit: bool = True, version: int | None = None) -> Errors:
        if version is None:
            version = 5 if self.version >= 2 else 4
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        answer = self.node.ask(request, version)
        if answer.error_code == Errors.NONE and version >= 5:
            self._become(answer.producer_id, answer.producer_epoch)
        return Errors.of(answer.error_code)

    def finish(self, *, is_commit: bool = True) -> None:
        """Ends the transaction and waits for its markers."""
        assert self.end(is_commit=is_commit) is Errors.NONE
        self.node.wait_for_markers()


def fetch_committed(node: Node, topic: str = TOPIC, number: int = 0) -> Any:
    """One partition of the answer to a reader of committed data."""
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
                ],
            )
        ],
    )
    return node.ask(request, 12).responses[0].partitions[0]
