"""Transactions with every partition of the node hold its loop no more than others."""

from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kaa.wire.messages.k26_end_txn import EndTxnRequest
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.scale import offsets
from tests.scale.requests import NAMES, NUMBERS, PARTITIONS, TOPICS, markers, records_of
from tests.scale.steps import Scale

Producer = tuple[int, int]
LOADING = (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR)


class Transactions:
    """A client that begins and ends them."""

    def __init__(self, scale: Scale) -> None:
        self._ask = scale.node.client.ask
        self._wait_until = scale.wait_until
        scale.wait_for_coordinator(1, "id")

    def start(self, transactional_id: str) -> Producer:
        asked = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=600_000
        )
        while (made := self._ask(asked)).error_code in LOADING:
            pass
        assert made.error_code == Errors.NONE
        return made.producer_id, made.producer_epoch

    def end(self, transactional_id: str, producer: Producer) -> None:
        """Until the markers are written, which are sent after the answer."""
        producer_id, producer_epoch = producer
        ended = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=True,
        )
        assert self._ask(ended).error_code == Errors.NONE
        described = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        self._wait_until(
            lambda: self._ask(described).transaction_states[0].transaction_state == "CompleteCommit"
        )


def test_partitions_that_are_announced(scale: Scale) -> None:
    transactions = Transactions(scale)
    ask = scale.node.client.ask
    topics = [AddPartitionsToTxnTopic(name=name, partitions=NUMBERS) for name in NAMES]

    def commit() -> None:
        producer = transactions.start("announced")
        asked = AddPartitionsToTxnTransaction(
            transactional_id="announced",
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=topics,
        )
        (added,) = ask(AddPartitionsToTxnRequest(transactions=[asked])).results_by_transaction
        assert len(added.topic_results) == TOPICS
        (described,) = ask(
            DescribeTransactionsRequest(transactional_ids=["announced"])
        ).transaction_states
        assert len(described.topics) == TOPICS
        transactions.end("announced", producer)

    scale.steady("AddPartitionsToTxn and EndTxn", commit)


def test_records_of_everything_in_a_transaction(scale: Scale) -> None:
    """The partitions become part of it by the first records that they get."""
    transactions = Transactions(scale)
    image = scale.node.broker.services.image

    def commit() -> None:
        producer = transactions.start("implicit")
        answer = scale.node.client.ask(records_of(image, NAMES, NUMBERS, "implicit", producer))
        errors = {one.error_code for topic in answer.responses for one in topic.partition_responses}
        assert errors == {Errors.NONE}
        transactions.end("implicit", producer)

    scale.steady("Produce in a transaction and EndTxn", commit)


def test_markers_of_another_coordinator(scale: Scale) -> None:
    scale.ask("WriteTxnMarkers", markers(NAMES, NUMBERS))


def test_offsets_of_everything_in_a_transaction(scale: Scale) -> None:
    ask = scale.node.client.ask
    scale.wait_for_coordinator(0, "g")
    transactions = Transactions(scale)

    def commit() -> None:
        producer = transactions.start("id")
        committed = ask(offsets.commit_in_transaction(producer))
        assert {one.error_code for topic in committed.topics for one in topic.partitions} == {0}
        transactions.end("id", producer)
        assert stored() == TOPICS * PARTITIONS

    def stored() -> int:
        (group,) = ask(offsets.fetch(is_stable=True)).groups
        partitions = [one for topic in group.topics for one in topic.partitions]
        return sum(one.error_code == Errors.NONE for one in partitions)

    scale.steady("TxnOffsetCommit", commit)
