from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kaa.testing import ApiKey, Broker, Errors, RefusedError
from kaa.testing.client import Client, check
from kaa.wire.messages.k03_metadata import MetadataRequest
from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    made = Client(broker.bootstrap_servers)
    yield made
    made.close()


def test_it_asks_any_broker_and_a_leader(broker: Broker, client: Client) -> None:
    topic = broker.topic("orders")
    metadata = client.metadata([topic.name])
    leader_id = metadata.topics[0].partitions[0].leader_id
    assert metadata.brokers[0].node_id == leader_id
    assert client.send(MetadataRequest(topics=[]), leader_id).brokers == metadata.brokers


def test_asking_for_a_topic_does_not_create_it(broker: Broker, client: Client) -> None:
    client.metadata(["never-made"])
    assert broker.topic_names() == []


def test_a_lost_connection_is_made_again(broker: Broker, client: Client) -> None:
    client.metadata(None)
    broker.restart()
    assert client.metadata(None).brokers


def test_it_speaks_the_versions_of_older_brokers(broker: Broker, client: Client) -> None:
    broker.cap_versions({ApiKey.METADATA: 4, ApiKey.CREATE_TOPICS: 4, ApiKey.FETCH: 4})
    broker.restart()
    topic = broker.topic("orders")
    topic.seed(["a"])
    topic.expect(["a"])


def test_threads_may_share_it(broker: Broker) -> None:
    topic = broker.topic("orders")
    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(lambda number: topic.seed([str(number)] * 5), range(8)):
            pass
    assert len(topic.records()) == 40


def test_an_api_that_is_not_there() -> None:
    with Broker() as older:
        older.cap_versions({"ListTransactions": -1})
        client = Client(older.bootstrap_servers)
        with pytest.raises(RefusedError) as refused:
            client.send(ListTransactionsRequest())
        client.close()
    assert refused.value.error is Errors.UNSUPPORTED_VERSION


def test_nobody_answers() -> None:
    with pytest.raises(ConnectionError, match="no broker answers"):
        Client("127.0.0.1:1,[::1]:1").metadata(None)


def test_check_names_what_was_refused() -> None:
    check("nothing", 0)
    with pytest.raises(RefusedError, match=r"^doing it: INVALID_CONFIG \(because\)$"):
        check("doing it", Errors.INVALID_CONFIG, "because")
