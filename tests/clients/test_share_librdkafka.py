"""librdkafka's share consumer on a running node, and share groups as kafka-python sees them."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer, TopicPartition

from kaa.client import ConfigChange, sync
from kaa.model.kinds import ResourceType
from tests.clients.kafka_python import KafkaAdminClient
from tests.clients.librdkafka import create_topic, produce
from tests.clients.samples import Sample
from tests.support.broker_process import BrokerProcess

RECORDS = 20
SECONDS_MAX = 60.0


@pytest.fixture
def bootstrap(quick_broker: BrokerProcess) -> str:
    """Of a node whose groups get their assignments soon."""
    return quick_broker.bootstrap_servers


def prepare(bootstrap: str, topic: str, *more: ConfigChange, partitions: int = 2) -> None:
    """A topic with numbers, and a group of the same name that begins at its start."""
    create_topic(bootstrap, topic, partitions)
    samples = [Sample(None, b"%d" % number, 1_000 + number) for number in range(RECORDS)]
    produce(bootstrap, topic, samples)
    changes = [ConfigChange("share.auto.offset.reset", "earliest"), *more]
    with sync.Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.alter_configs(ResourceType.GROUP, topic, changes)


def consumer(bootstrap: str, topic: str, **more: Any) -> ShareConsumer:
    named = {name.replace("_", "."): value for name, value in more.items()}
    made = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": topic, **named})
    made.subscribe([topic])
    return made


def explicit(bootstrap: str, topic: str, **more: Any) -> ShareConsumer:
    return consumer(bootstrap, topic, share_acknowledgement_mode="explicit", **more)


def poll(member: ShareConsumer, seconds: float = 1.0) -> list[Message]:
    found = list(member.poll(seconds))
    assert [one.error() for one in found] == [None] * len(found)
    return found


def take(member: ShareConsumer, count: int, kind: AcknowledgeType | None = None) -> list[Message]:
    """So many records, of which each is acknowledged at once if a kind is given."""
    found: list[Message] = []
    end = time.monotonic() + SECONDS_MAX
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} records came"
        some = poll(member)
        if kind is not None:
            for one in some:
                member.acknowledge(one, kind)
        found += some
    return found


def number_of(record: Message) -> int:
    return int(record.value() or b"")


def numbers(records: list[Message]) -> list[int]:
    return sorted(map(number_of, records))


def commit(member: ShareConsumer) -> dict[TopicPartition, KafkaException | None]:
    return member.commit_sync(SECONDS_MAX)


def test_every_record_comes_once_to_one_of_many(bootstrap: str, topic: str) -> None:
    prepare(bootstrap, topic)
    members = [consumer(bootstrap, topic, max_poll_records=3) for _ in range(3)]
    found: list[Message] = []
    end = time.monotonic() + SECONDS_MAX
    while len(found) < RECORDS:
        assert time.monotonic() < end, numbers(found)
        for member in members:
            found += poll(member, 0.2)
    for member in members:
        # Otherwise the records of the last poll would be given back.
        assert set(commit(member).values()) <= {None}
        member.close()
    assert numbers(found) == list(range(RECORDS))
    assert {one.delivery_count() for one in found} == {1}
    # What was handed out is done with.
    with sync.Admin({"bootstrap.servers": bootstrap}) as admin:
        positions = admin.list_share_group_offsets(topic)
        assert sum(one.lag or 0 for one in positions.values()) == 0


def test_what_is_said_of_records_counts(bootstrap: str, topic: str) -> None:
    prepare(bootstrap, topic)
    told: list[tuple[dict[TopicPartition, set[int]], KafkaException | None]] = []
    with explicit(bootstrap, topic) as member:
        member.set_acknowledgement_commit_callback(lambda *outcome: told.append(outcome))
        said: dict[int, AcknowledgeType] = {}
        end = time.monotonic() + SECONDS_MAX
        while len(said) < RECORDS:
            assert time.monotonic() < end, said
            for one in poll(member):
                number = number_of(one)
                said.setdefault(number, list(AcknowledgeType)[number % len(AcknowledgeType)])
                member.acknowledge(one, said[number])
            assert set(commit(member).values()) <= {None}
        assert {error for _, error in told} == {None}
        released = [number for number, kind in said.items() if kind is AcknowledgeType.RELEASE]
        again = take(member, len(released), AcknowledgeType.ACCEPT)
        assert numbers(again) == sorted(released)
        assert {one.delivery_count() for one in again} == {2}
        assert set(commit(member).values()) == {None}
        assert not poll(member)


def test_what_was_not_said_goes_to_others_at_once(bootstrap: str, topic: str) -> None:
    prepare(bootstrap, topic)
    with explicit(bootstrap, topic) as first:
        held = take(first, 1)
    with consumer(bootstrap, topic) as second:
        found = take(second, RECORDS)
    counts = {number_of(one): one.delivery_count() for one in found}
    assert sorted(counts) == list(range(RECORDS))
    assert {counts[number] for number in numbers(held)} == {2}


def test_a_lock_that_ran_out_is_told(bootstrap: str, topic: str) -> None:
    """Who comes too late with an acknowledgement hears of it, and another gets the record."""
    lock = ConfigChange("share.record.lock.duration.ms", "15000")
    prepare(bootstrap, topic, lock, partitions=1)
    with explicit(bootstrap, topic) as late:
        held = take(late, 1)
        # Not before: it asks for records without being polled.
        with consumer(bootstrap, topic) as other:
            found: list[Message] = []
            end = time.monotonic() + SECONDS_MAX
            while not set(numbers(held)) <= set(numbers(found)):
                assert time.monotonic() < end, numbers(found)
                found += poll(other)
        for one in held:
            late.acknowledge(one)
        errors = [error for error in commit(late).values() if error is not None]
        assert [error.args[0].name() for error in errors] == ["INVALID_RECORD_STATE"] * len(errors)
        assert errors


def test_what_is_acknowledged_survives_a_kill(own_broker: BrokerProcess, topic: str) -> None:
    bootstrap = own_broker.bootstrap_servers
    prepare(bootstrap, topic)
    with explicit(bootstrap, topic) as member:
        found = numbers(take(member, 1, AcknowledgeType.ACCEPT))
        assert set(commit(member).values()) == {None}
        own_broker.kill()
        own_broker.start()
        rest = numbers(take(member, RECORDS - len(found), AcknowledgeType.ACCEPT))
    assert sorted(found + rest) == list(range(RECORDS))


def test_kafka_python_lists_groups_by_type(bootstrap: str, topic: str) -> None:
    prepare(bootstrap, topic)
    with consumer(bootstrap, topic) as member:
        take(member, 1)
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            found = {one["group_id"]: one for one in admin.list_groups(types_filter=["share"])}
            assert found[topic]["group_type"].lower() == "share"
            others = admin.list_groups(types_filter=["consumer", "classic"])
            assert topic not in {one["group_id"] for one in others}
