"""Kafka's tool for transactions against a running node."""

from __future__ import annotations

import re

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.clients.librdkafka import create_topic
from tests.oracle import Oracle
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient
from tests.unit.handlers.transaction_requests import LiveNode, TransactionalProducer

pytestmark = pytest.mark.oracle


def tool(oracle: Oracle, bootstrap: str, *arguments: str) -> list[list[str]]:
    """The words of each line that it prints, without the heading."""
    done = oracle.run_tool("TransactionsCommand", "--bootstrap-server", bootstrap, *arguments)
    assert done.code == 0, done.err
    return [re.split(r"\t|\s{2,}", line.strip()) for line in done.out.splitlines()][1:]


def opened(client: RawClient, topic: str, **fields: object) -> TransactionalProducer:
    """A producer with an open transaction on partition 0, named like the topic."""
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[topic])
    assert wait_until(
        lambda: bool(client.ask(request).coordinators[0].error_code == Errors.NONE),
        PATIENCE_SECONDS,
    )
    producer = TransactionalProducer(LiveNode(client), topic)
    version = 6 if fields else 5
    assert wait_until(lambda: producer.init(version, **fields) is Errors.NONE, PATIENCE_SECONDS)
    assert producer.send(topic, 0) is Errors.NONE
    return producer


def test_list_and_describe(oracle: Oracle, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    with RawClient(bootstrap) as client:
        producer = opened(client, topic)
        lines = tool(oracle, bootstrap, "list")
        assert [topic, "1", str(producer.producer_id), "Ongoing"] in lines
        assert tool(oracle, bootstrap, "list", "--duration-filter", "3600000") == []
        pattern = ("list", "--transactional-id-pattern", f"{topic}")
        assert [line[0] for line in tool(oracle, bootstrap, *pattern)] == [topic]
        (line,) = tool(oracle, bootstrap, "describe", "--transactional-id", topic)
        assert line[:6] == ["1", topic, str(producer.producer_id), "0", "Ongoing", "60000"]
        assert line[-1] == f"{topic}-0"
        arguments = ("describe-producers", "--topic", topic, "--partition", "0")
        (line,) = tool(oracle, bootstrap, *arguments)
        assert line[:3] == [str(producer.producer_id), "0", "-1"]
        assert producer.end() is Errors.NONE


def test_abort_by_offset(oracle: Oracle, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    with RawClient(bootstrap) as client:
        producer = opened(client, topic)
        aborted = ("--topic", topic, "--partition", "0", "--start-offset", "0")
        tool(oracle, bootstrap, "abort", *aborted)
        arguments = ("describe-producers", "--topic", topic, "--partition", "0")
        (line,) = tool(oracle, bootstrap, *arguments)
        assert line[-1] == "None"
        assert producer.end(is_commit=False) is Errors.NONE


def test_hanging_transactions_are_found_and_aborted(
    oracle: Oracle, own_broker: BrokerProcess
) -> None:
    bootstrap, topic = own_broker.bootstrap_servers, "hanging"
    create_topic(bootstrap, topic)
    with RawClient(bootstrap) as client:
        # The coordinator believes that it ended, and then a late batch comes.
        producer = opened(client, topic)
        assert producer.end() is Errors.NONE

        def is_over() -> bool:
            arguments = ("describe", "--transactional-id", topic)
            return tool(oracle, bootstrap, *arguments)[0][4] == "CompleteCommit"

        assert wait_until(is_over, PATIENCE_SECONDS)
        own_broker.kill()
    own_broker.overrides = ("transaction.partition.verification.enable=false",)
    own_broker.start()
    with RawClient(bootstrap) as client:
        late = TransactionalProducer(LiveNode(client), topic, version=1)
        late.producer_id, late.epoch = producer.identity
        # Old clients announce; this one does not.
        late.add = lambda *_, **__: Errors.NONE  # type: ignore[method-assign]
        assert late.send(topic, 0) is Errors.NONE
        arguments = ("--broker-id", "1", "--topic", topic, "--max-transaction-timeout", "-6")
        found = tool(oracle, bootstrap, "find-hanging", *arguments)
        assert [line[:3] for line in found] == [[topic, "0", str(late.producer_id)]]
        aborted = ("--topic", topic, "--partition", "0", "--start-offset", found[0][5])
        tool(oracle, bootstrap, "abort", *aborted)
        assert tool(oracle, bootstrap, "find-hanging", *arguments) == []


def test_a_forgotten_two_phase_transaction_is_listed_and_terminated(
    oracle: Oracle, own_broker: BrokerProcess
) -> None:
    own_broker.kill()
    own_broker.overrides = ("transaction.two.phase.commit.enable=true",)
    own_broker.start()
    bootstrap, topic = own_broker.bootstrap_servers, "forgotten"
    create_topic(bootstrap, topic)
    with RawClient(bootstrap) as client:
        producer = opened(client, topic, enable_2pc=True)
        own_broker.kill()
    own_broker.start()
    assert [topic, "1", str(producer.producer_id), "Ongoing"] in tool(oracle, bootstrap, "list")
    tool(oracle, bootstrap, "forceTerminateTransaction", "--transactionalId", topic)
    (line,) = tool(oracle, bootstrap, "list", "--transactional-id-pattern", topic)
    assert line[-1] in {"CompleteAbort", "Empty"}


def test_markers_of_a_newer_coordinator_count(bootstrap: str, topic: str) -> None:
    """What the tool sends to abort."""
    create_topic(bootstrap, topic)
    with RawClient(bootstrap) as client:
        producer = opened(client, topic)
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            coordinator_epoch=-1,
        )
        (result,) = client.ask(WriteTxnMarkersRequest(markers=[marker])).markers
        assert result.topics[0].partitions[0].error_code == Errors.NONE
