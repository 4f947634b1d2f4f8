from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kaa.testing import ApiKey, Broker, Errors, Topic
from kaa.testing.faults import api_key
from kaa.wire.messages.k03_metadata import MetadataResponse
from kaa.wire.messages.k19_create_topics import CreatableTopicResult, CreateTopicsResponse
from tests.clients.kafka_python import KafkaProducer

QUICK = {"linger.ms": 0, "retry.backoff.ms": 10, "retry.backoff.max.ms": 20, "log_level": 0}


@pytest.fixture(scope="module", params=["thread", "process"])
def session(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The rules are the same for a broker inside of this process and for one in a child."""
    with Broker(process=request.param == "process") as running:
        yield running


@pytest.fixture
def broker(session: Broker) -> Iterator[Broker]:
    with session.isolated(session.name("test-")):
        yield session
    assert [line for line in session.reports if not line.startswith("ready ")] == []


def produce(broker: Broker, topic: Topic, *values: str, **settings: Any) -> list[Any]:
    """Sends with librdkafka to partition 0; the errors of the records that were not taken."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUICK, **named})
    errors: list[Any] = []
    for value in values:
        producer.produce(
            topic.name, value, partition=0, on_delivery=lambda error, _: errors.append(error)
        )
        assert producer.flush(20) == 0
    return [error.name() for error in errors if error is not None]


def test_a_retriable_error_is_retried(broker: Broker) -> None:
    topic = broker.topic()
    fault = broker.on(ApiKey.PRODUCE).fail(Errors.NOT_ENOUGH_REPLICAS, times=2)
    assert produce(broker, topic, "a") == []
    assert fault.count == 2
    assert fault.has_ended
    topic.expect(["a"])


def test_a_final_error_reaches_the_producer(broker: Broker) -> None:
    topic = broker.topic()
    with broker.on("Produce").fail("INVALID_RECORD"):
        assert produce(broker, topic, "a") == ["INVALID_RECORD"]
    assert produce(broker, topic, "b") == []
    topic.expect(["b"])


def test_a_fault_of_one_topic_leaves_the_others_alone(broker: Broker) -> None:
    healthy, sick = broker.topic(), broker.topic()
    broker.on(ApiKey.PRODUCE, topic=sick).fail(Errors.INVALID_RECORD)
    assert produce(broker, healthy, "a") == []
    assert produce(broker, sick, "a") == ["INVALID_RECORD"]
    healthy.expect(["a"])
    sick.expect([])


def test_a_fault_of_one_partition_leaves_the_rest_of_its_request_alone(broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    fault = broker.on(ApiKey.PRODUCE, topic=topic.name, partition=1).fail(Errors.INVALID_RECORD)
    # kafka-python sends the batches of all partitions in one request.
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, linger_ms=50, enable_idempotence=False
    )
    try:
        sent = [producer.send(topic.name, b"%d" % number, partition=number) for number in (0, 1)]
        producer.flush(20)
        assert sent[0].get(20).partition == 0
        with pytest.raises(Exception, match=r"(?i)record"):
            sent[1].get(20)
    finally:
        producer.close()
    assert fault.count == 1
    topic.expect(["0"])


def test_failed_fetches_are_tried_again(broker: Broker) -> None:
    topic = broker.topic()
    topic.seed(["a", "b"])
    fault = broker.on(ApiKey.FETCH, topic=topic, partition=0).fail(
        Errors.NOT_LEADER_OR_FOLLOWER, times=2
    )
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "not used",
            "enable.auto.commit": False,
            "fetch.error.backoff.ms": 10,
            "topic.metadata.refresh.fast.interval.ms": 10,
            **{name: value for name, value in QUICK.items() if name != "linger.ms"},
        }
    )
    try:
        consumer.assign([TopicPartition(topic.name, 0, 0)])
        values = [message.value() for message in consumer.consume(2, 20)]
    finally:
        consumer.close()
    assert values == [b"a", b"b"]
    assert fault.count == 2


def test_metadata_can_fail(broker: Broker) -> None:
    topic = broker.topic()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    with broker.on(ApiKey.METADATA, topic=topic).fail(Errors.TOPIC_AUTHORIZATION_FAILED):
        found = admin.list_topics(topic.name, timeout=10)
        assert "TOPIC_AUTHORIZATION_FAILED" in repr(found.topics[topic.name].error)
    assert admin.list_topics(topic.name, timeout=10).topics[topic.name].error is None


def test_a_delayed_answer_is_late_and_the_request_has_its_effect(broker: Broker) -> None:
    topic = broker.topic()
    broker.on(ApiKey.PRODUCE).delay(0.3, times=1)
    begun = time.monotonic()
    assert produce(broker, topic, "a", acks=1) == []
    assert 0.3 <= time.monotonic() - begun < 5
    topic.expect(["a"])


@pytest.mark.parametrize("after", [False, True])
def test_a_dropped_connection_is_made_again(broker: Broker, after: bool) -> None:
    topic = broker.topic()
    fault = broker.on(ApiKey.PRODUCE).drop(times=1, after=after)
    assert produce(broker, topic, "a", enable_idempotence=True, reconnect_backoff_ms=10) == []
    assert fault.count == 1
    topic.expect(["a"])


def test_an_answer_that_is_lost_makes_a_duplicate_without_idempotence(broker: Broker) -> None:
    topic = broker.topic()
    broker.on(ApiKey.PRODUCE).drop(times=1, after=True)
    assert produce(broker, topic, "a", enable_idempotence=False, reconnect_backoff_ms=10) == []
    topic.expect(["a", "a"])


def test_observed_requests_outlive_their_connection(broker: Broker) -> None:
    topic = broker.topic()
    told: list[Any] = []
    fault = broker.on(ApiKey.PRODUCE, client_id="shop").observe(told.append)
    assert produce(broker, topic, "unseen") == []
    assert produce(broker, topic, "first", "second", client_id="shop") == []
    assert fault.requests == told
    assert fault.count == 2
    records = [request.topic_data[0].partition_data[0].records for request in told]
    assert [b"first" in bytes(records[0]), b"second" in bytes(records[1])] == [True, True]


def test_a_function_answers_or_leaves_it_to_the_broker(broker: Broker) -> None:
    def refuse_long_names(request: Any) -> CreateTopicsResponse | None:
        name = request.topics[0].name
        if len(name) < 20:
            return None
        row = CreatableTopicResult(name=name, error_code=Errors.POLICY_VIOLATION)
        return CreateTopicsResponse(topics=[row])

    fault = broker.on(ApiKey.CREATE_TOPICS).answer(refuse_long_names)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("short", 1, 1)])["short"].result(20)
    long_name = "x" * 30
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        admin.create_topics([NewTopic(long_name, 1, 1)])[long_name].result(20)
    assert fault.count == 1


def test_the_first_rule_acts_and_all_observers_see(broker: Broker) -> None:
    topic = broker.topic()
    observed = broker.on(ApiKey.PRODUCE).observe()
    first = broker.on(ApiKey.PRODUCE).fail(Errors.INVALID_RECORD)
    second = broker.on(ApiKey.PRODUCE).drop()
    assert produce(broker, topic, "a") == ["INVALID_RECORD"]
    assert (observed.count, first.count, second.count) == (1, 1, 0)


def test_helpers_are_left_alone(broker: Broker) -> None:
    broker.on(ApiKey.PRODUCE).drop()
    broker.on(ApiKey.METADATA).fail(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    topic = broker.topic()
    topic.seed(["a"])
    topic.expect(["a"])
    assert broker.requests == []


def test_a_client_lives_through_a_kill_and_a_restart(broker: Broker) -> None:
    topic = broker.topic(flush_messages=1)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, **QUICK, "reconnect.backoff.ms": 10}
    )
    for value in ("before", "after"):
        producer.produce(topic.name, value)
        assert producer.flush(20) == 0
        if value == "before":
            broker.kill()
            broker.restart()
    topic.expect(["before", "after"])


def test_rules_outlive_a_restart(broker: Broker) -> None:
    topic = broker.topic()
    broker.on(ApiKey.PRODUCE).fail(Errors.INVALID_RECORD)
    broker.restart()
    assert produce(broker, topic, "a") == ["INVALID_RECORD"]


def test_an_older_broker(broker: Broker) -> None:
    topic = broker.topic()
    broker.cap_versions({"Produce": 8, ApiKey.METADATA: 8, "DESCRIBE_CLUSTER": -1})
    produced = broker.on(ApiKey.PRODUCE).observe()
    assert produce(broker, topic, "a") == []
    topic.expect(["a"])
    assert produced.count == 1
    assert any(text.startswith("Produce v8 ") for text in broker.requests)
    assert not any("DescribeCluster" in text for text in broker.requests)
    broker.cap_versions({})
    assert produce(broker, topic, "b") == []
    assert any(text.startswith(("Produce v9", "Produce v1")) for text in broker.requests)


def test_requests_are_told_in_a_few_words(broker: Broker) -> None:
    topic = broker.topic()
    broker.on(ApiKey.PRODUCE).fail(Errors.NOT_ENOUGH_REPLICAS, times=1)
    produce(broker, topic, "a", client_id="shop")
    lines = [text for text in broker.requests if text.startswith("Produce")]
    assert f"from shop {topic.name}[0] (a rule of the test acted)" in lines[0]
    assert lines[1].endswith(f"from shop {topic.name}[0]")


def test_names_of_apis() -> None:
    for name in ("OffsetCommit", "OFFSET_COMMIT", "offset_commit", 8, ApiKey.OFFSET_COMMIT):
        assert api_key(name) is ApiKey.OFFSET_COMMIT
    with pytest.raises(ValueError, match="there is no API 'Prodduce'"):
        api_key("Prodduce")


@pytest.mark.parametrize("process", [False, True])
def test_an_answer_of_the_wrong_kind_costs_only_its_client(process: bool) -> None:
    with Broker(process=process) as broker:
        topic = broker.topic()
        fault = broker.on(ApiKey.PRODUCE).answer(lambda _: MetadataResponse(), times=1)
        assert produce(broker, topic, "a", reconnect_backoff_ms=10) == []
        assert fault.count == 1
        assert any("is not of type ProduceResponse" in line for line in broker.reports)


def test_an_error_that_kafka_does_not_have() -> None:
    with Broker() as broker, pytest.raises(ValueError, match="did you mean NOT_ENOUGH_REPLICAS"):
        broker.on("Produce").fail("NOT_ENOUGH_REPLICA")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda broker: broker.on(None), TypeError, "None is not an API"),
        (lambda broker: broker.on(9_999), ValueError, "there is no API 9999"),
        (lambda broker: broker.on("Produce").fail(99_999), ValueError, "has no error 99999"),
        (lambda broker: broker.on("Produce").fail(None), ValueError, "has no error None"),
        (lambda broker: broker.on("Produce").drop(times=0), ValueError, "times must be at least 1"),
        (
            lambda broker: broker.on("Produce").drop(times=-1),
            ValueError,
            "times must be at least 1",
        ),
        (lambda broker: broker.on("Produce").drop(times="2"), TypeError, "times must be a whole"),
    ],
)
def test_a_rule_that_could_never_hold(
    broker: Broker, call: Any, kind: type[Exception], text: str
) -> None:
    """It would be in nobody's way, and let the test prove something else."""
    with pytest.raises(kind, match=text):
        call(broker)


def test_an_error_by_its_number(broker: Broker) -> None:
    number: Any = int(Errors.NOT_ENOUGH_REPLICAS)
    rule = broker.on("Produce").fail(number)
    assert rule.verb.error is Errors.NOT_ENOUGH_REPLICAS
    rule.remove()
