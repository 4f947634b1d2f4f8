"""Groups of Kaa's consumers on running clusters, in both protocols."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.consumer.consumer import Consumer
from kaa.client.errors import ClientError, CommitFailedError, KafkaError
from kaa.client.group.membership import RebalanceListener
from kaa.client.group.offsets import OffsetAndMetadata
from kaa.client.producer.producer import Producer
from kaa.model.topics import TopicPartition
from kaa.testing import Broker
from kaa.wire.errors import Errors
from tests.support.pace import PATIENCE_SECONDS

PREFIX = "org.apache.kafka.clients.consumer."


class Cluster:
    """Where a test runs, and the settings of its members."""

    def __init__(self, bootstrap: str, protocol: str) -> None:
        self.bootstrap = bootstrap
        self.protocol = protocol

    def settings(self, group: str, **more: str) -> dict[str, str]:
        given = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
        }
        if self.protocol == "classic":
            given["heartbeat.interval.ms"] = "200"
        return given | {name.replace("_", "."): value for name, value in more.items()}


@pytest.fixture(scope="module")
def quick_kaa() -> Iterator[Broker]:
    """A node whose members of the newer protocol heartbeat often."""
    overrides = {
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.session.timeout.ms": 1_000,
        "group.consumer.min.session.timeout.ms": 1_000,
        "group.consumer.regex.refresh.interval.ms": 10_000,
    }
    with Broker(overrides=overrides) as broker:
        yield broker


def cluster_named(name: str, request: pytest.FixtureRequest) -> Cluster:
    kind, _, protocol = name.partition("-")
    fixture = {"kafka": "real_kafka", "kaa": "quick_kaa"}[kind]
    return Cluster(request.getfixturevalue(fixture).bootstrap_servers, protocol)


@pytest.fixture(
    params=[
        "kaa-classic",
        "kaa-consumer",
        pytest.param("kafka-classic", marks=pytest.mark.oracle),
        pytest.param("kafka-consumer", marks=pytest.mark.oracle),
    ]
)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return cluster_named(request.param, request)


@pytest.fixture(
    params=[
        "kaa-classic",
        "kaa-consumer",
        pytest.param("kafka-classic", marks=pytest.mark.oracle),
    ]
)
def quick_cluster(request: pytest.FixtureRequest) -> Cluster:
    """Without Apache Kafka's newer protocol, whose members heartbeat every five seconds."""
    return cluster_named(request.param, request)


async def make_topic(cluster: Cluster, name: str, partitions: int, each: int) -> None:
    """A topic with so many records in each partition."""
    settings = {"bootstrap.servers": cluster.bootstrap}
    async with Admin(settings) as admin:
        assert await admin.create_topics([NewTopic(name, partitions, 1)]) == {name: None}
    async with Producer(settings) as producer:
        for number in range(each):
            for partition in range(partitions):
                await producer.send(name, b"%d" % number, partition=partition)


async def poll_until(
    condition: Callable[[], bool], *consumers: Consumer, seconds: float = PATIENCE_SECONDS
) -> None:
    """Lets consumers poll side by side until something is so."""

    async def work(consumer: Consumer) -> None:
        while not condition():
            await consumer.poll(timeout_ms=50)

    async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
        for consumer in consumers:
            tasks.create_task(work(consumer))


class Story(RebalanceListener):
    """Writes down what happens to a consumer."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.lines.append(("assigned", sorted(one.partition for one in partitions)))

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self.lines.append(("revoked", sorted(one.partition for one in partitions)))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.lines.append(("lost", sorted(one.partition for one in partitions)))


@asynccontextmanager
async def member(
    cluster: Cluster, topic: str, listener: Story | None = None, **more: str
) -> AsyncIterator[Consumer]:
    async with Consumer(cluster.settings(topic, **more)) as consumer:
        consumer.subscribe([topic], listener=listener)
        yield consumer


def test_two_members_share_and_one_takes_over(cluster: Cluster, topic_name: str) -> None:
    async def run() -> None:
        await make_topic(cluster, topic_name, 4, 1)
        story = Story()
        async with member(cluster, topic_name, story) as first:
            await poll_until(lambda: len(first.assignment) == 4, first)
            assert story.lines[-1] == ("assigned", [0, 1, 2, 3])
            async with member(cluster, topic_name) as second:
                await poll_until(
                    lambda: len(first.assignment) == len(second.assignment) == 2, first, second
                )
                assert set(first.assignment).isdisjoint(second.assignment)
            await poll_until(lambda: len(first.assignment) == 4, first)
        assert story.lines[-1] == ("revoked", [0, 1, 2, 3])
        assert not any(kind == "lost" for kind, _ in story.lines)

    asyncio.run(run())


def test_committed_offsets_are_where_the_next_one_begins(cluster: Cluster, topic_name: str) -> None:
    async def run() -> None:
        await make_topic(cluster, topic_name, 1, 10)
        partition = TopicPartition(topic_name, 0)
        async with member(cluster, topic_name, enable_auto_commit="false") as consumer:
            records = await consumer.poll(timeout_ms=20_000, max_records=3)
            assert [record.offset for record in records[partition]] == [0, 1, 2]
            await consumer.commit()
            assert await consumer.committed() == {partition: OffsetAndMetadata(3)}
            await consumer.commit({partition: OffsetAndMetadata(4, "a note")})
            await consumer.commit_async()
            assert await consumer.committed([partition]) == {partition: OffsetAndMetadata(3)}
            assert consumer.group_metadata().group_id == topic_name
            assert consumer.group_metadata().generation_id > 0
        async with member(cluster, topic_name, enable_auto_commit="false") as consumer:
            records = await consumer.poll(timeout_ms=20_000, max_records=2)
            assert [record.offset for record in records[partition]] == [3, 4]

    asyncio.run(run())


def test_positions_are_committed_in_the_background_and_at_the_end(
    cluster: Cluster, topic_name: str
) -> None:
    async def run() -> None:
        await make_topic(cluster, topic_name, 1, 10)
        partition = TopicPartition(topic_name, 0)
        async with (
            Admin({"bootstrap.servers": cluster.bootstrap}) as admin,
            member(cluster, topic_name, auto_commit_interval_ms="50") as consumer,
        ):
            await consumer.poll(timeout_ms=20_000, max_records=4)

            async def offset() -> int:
                found = await admin.list_group_offsets(topic_name)
                return found[partition].offset if found else 0

            async with asyncio.timeout(60):
                while await offset() < 4:
                    consumer.pause(consumer.assignment)
                    await consumer.poll(timeout_ms=50)
            assert consumer.paused == (partition,)
            assert await offset() == 4
            consumer.resume(consumer.assignment)
            await consumer.poll(timeout_ms=20_000, max_records=3)
        async with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            assert (await admin.list_group_offsets(topic_name))[partition].offset == 7
            assert (await admin.describe_group(topic_name)).members == ()

    asyncio.run(run())


def test_member_that_polls_too_seldom_loses_its_partitions(
    quick_cluster: Cluster, topic_name: str
) -> None:
    async def run() -> None:
        await make_topic(quick_cluster, topic_name, 2, 1)
        story = Story()
        async with member(
            quick_cluster,
            topic_name,
            story,
            max_poll_interval_ms="1000",
            enable_auto_commit="false",
            **({"session_timeout_ms": "6000"} if quick_cluster.protocol == "classic" else {}),
        ) as slow:
            await poll_until(lambda: len(slow.assignment) == 2, slow)
            async with member(quick_cluster, topic_name) as other:
                await poll_until(lambda: len(other.assignment) == 2, other)
            with pytest.raises(CommitFailedError, match=r"no member|UNKNOWN_MEMBER_ID"):
                await slow.commit()
            await poll_until(
                lambda: story.lines[-1][0] == "assigned" and len(story.lines) > 2, slow
            )
        assert ("lost", [0, 1]) in story.lines

    asyncio.run(run())


def test_pattern_finds_topics(quick_cluster: Cluster, topic_name: str) -> None:
    async def run() -> None:
        await make_topic(quick_cluster, f"{topic_name}-a", 1, 1)
        settings = quick_cluster.settings(topic_name, metadata_max_age_ms="300")
        async with Consumer(settings) as consumer:
            if quick_cluster.protocol == "consumer":
                # A broker looks for new topics every ten seconds at most.
                await make_topic(quick_cluster, f"{topic_name}-b", 2, 1)
            consumer.subscribe(pattern=f"{topic_name}-.*")
            if quick_cluster.protocol == "classic":
                await poll_until(lambda: len(consumer.assignment) == 1, consumer)
                await make_topic(quick_cluster, f"{topic_name}-b", 2, 1)
            await poll_until(lambda: len(consumer.assignment) == 3, consumer)
            await consumer.unsubscribe()
            assert consumer.assignment == ()
            consumer.subscribe([f"{topic_name}-b"])
            await poll_until(lambda: len(consumer.assignment) == 2, consumer)

    asyncio.run(run())


def test_static_member_comes_back_to_its_partitions(
    quick_cluster: Cluster, topic_name: str
) -> None:
    async def run() -> None:
        await make_topic(quick_cluster, topic_name, 2, 1)
        other_story = Story()
        async with member(quick_cluster, topic_name, other_story, group_instance_id="one") as other:
            async with member(quick_cluster, topic_name, group_instance_id="two") as first:
                await poll_until(
                    lambda: len(first.assignment) == len(other.assignment) == 1, first, other
                )
                had = first.assignment
            told = len(other_story.lines)
            async with member(quick_cluster, topic_name, group_instance_id="two") as again:
                await poll_until(lambda: len(again.assignment) == 1, again, other)
                assert again.assignment == had
            assert len(other_story.lines) == told

    asyncio.run(run())


def test_a_loop_commits_what_it_handed_out(cluster: Cluster, topic_name: str) -> None:
    """Also where it is left in the middle of what was fetched, and by `commit` within it."""

    async def run() -> None:
        await make_topic(cluster, topic_name, 2, 5)
        seen: list[tuple[int, bytes]] = []
        for stop in (3, 6, 10):
            async with member(cluster, topic_name) as consumer:
                async for record in consumer:
                    seen.append((record.partition, record.value))
                    await consumer.commit()
                    committed = await consumer.committed()
                    assert sum(one.offset for one in committed.values()) == len(seen)
                    if len(seen) == stop:
                        break
                names = consumer.assignment
            async with Consumer(cluster.settings(topic_name)) as watcher:
                committed = await watcher.committed(names)
                assert sum(one.offset for one in committed.values()) == stop
        assert sorted(seen) == [(part, b"%d" % number) for part in (0, 1) for number in range(5)]

    asyncio.run(run())


def test_commit_of_partitions_that_the_user_assigned(cluster: Cluster, topic_name: str) -> None:
    async def run() -> None:
        await make_topic(cluster, topic_name, 1, 5)
        partition = TopicPartition(topic_name, 0)
        settings = cluster.settings(topic_name, enable_auto_commit="false")
        async with Consumer(settings) as consumer:
            consumer.assign([partition])
            with pytest.raises(ClientError, match="unsubscribe"):
                consumer.subscribe([topic_name])
            await consumer.poll(timeout_ms=10_000, max_records=2)
            await consumer.commit({partition: 2})
        async with Consumer(settings) as consumer:
            consumer.assign([partition])
            assert await consumer.position(partition) == 2

    asyncio.run(run())


def test_what_cannot_be(cluster: Cluster, topic_name: str) -> None:
    async def run() -> None:
        async with Consumer({"bootstrap.servers": cluster.bootstrap}) as lone:
            with pytest.raises(ClientError, match=r"group\.id"):
                lone.subscribe([topic_name])
        async with Consumer(cluster.settings(topic_name)) as consumer:
            with pytest.raises(TypeError, match="names are text"):
                consumer.subscribe(topic_name.encode())  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="topics or a pattern"):
                consumer.subscribe([topic_name], pattern="x")
            assert await consumer.committed() == {}
        if cluster.protocol == "classic":
            settings = cluster.settings(topic_name, session_timeout_ms="1")
            async with Consumer({**settings, "heartbeat.interval.ms": "1"}) as consumer:
                consumer.subscribe([topic_name])
                with pytest.raises(KafkaError, match=r"choose session\.timeout\.ms") as refused:
                    await consumer.poll(timeout_ms=20_000)
                assert refused.value.error is Errors.INVALID_SESSION_TIMEOUT

    asyncio.run(run())


JOIN_APIS = {"classic": "JoinGroup", "consumer": "ConsumerGroupHeartbeat"}


@pytest.mark.parametrize("protocol", JOIN_APIS)
def test_refused_consumer_is_usable_again_when_the_cause_is_gone(
    quick_kaa: Broker, topic_name: str, protocol: str
) -> None:
    """As Java's: each poll raises what it met, and the first one after the cause is gone reads."""

    async def run() -> None:
        cluster = Cluster(quick_kaa.bootstrap_servers, protocol)
        await make_topic(cluster, topic_name, 1, 3)
        story = Story()
        refusal = quick_kaa.on(JOIN_APIS[protocol], group=topic_name)
        async with member(cluster, topic_name, story) as consumer:
            with refusal.fail(Errors.GROUP_AUTHORIZATION_FAILED) as fault:
                for _ in range(2):
                    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
                        await consumer.poll(timeout_ms=20_000)
                assert fault.count == 2
            records = await consumer.poll(timeout_ms=20_000)
            assert [len(found) for found in records.values()] == [3]
            # A member that is refused later loses what it has, and gets it again.
            later = "Heartbeat" if protocol == "classic" else "ConsumerGroupHeartbeat"
            with (
                quick_kaa.on(later, group=topic_name).fail(Errors.GROUP_AUTHORIZATION_FAILED),
                pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"),
            ):
                await consumer.poll(timeout_ms=20_000)
            await poll_until(lambda: len(story.lines) == 3, consumer)
        assert story.lines == [
            ("assigned", [0]),
            ("lost", [0]),
            ("assigned", [0]),
            ("revoked", [0]),
        ]

    asyncio.run(run())


def test_consumer_that_was_refused_and_ends_has_lost_its_partitions(
    quick_kaa: Broker, topic_name: str
) -> None:
    async def run() -> None:
        cluster = Cluster(quick_kaa.bootstrap_servers, "classic")
        await make_topic(cluster, topic_name, 1, 0)
        story = Story()
        async with member(cluster, topic_name, story) as consumer:
            await poll_until(lambda: len(consumer.assignment) == 1, consumer)
            with (
                quick_kaa.on("Heartbeat", group=topic_name).fail(Errors.GROUP_AUTHORIZATION_FAILED),
                pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"),
            ):
                await consumer.poll(timeout_ms=20_000)
        assert story.lines == [("assigned", [0]), ("lost", [0])]

    asyncio.run(run())


@pytest.mark.parametrize("assignor", ["StickyAssignor", "CooperativeStickyAssignor"])
def test_sticky_members_keep_what_they_can(
    quick_kaa: Broker, topic_name: str, assignor: str
) -> None:
    async def run() -> None:
        cluster = Cluster(quick_kaa.bootstrap_servers, "classic")
        await make_topic(cluster, topic_name, 6, 0)
        story = Story()
        more = PREFIX + assignor
        async with (
            member(cluster, topic_name, story, partition_assignment_strategy=more) as first,
            member(cluster, topic_name, partition_assignment_strategy=more) as second,
        ):
            await poll_until(
                lambda: len(first.assignment) == len(second.assignment) == 3, first, second
            )
            had = set(first.assignment)
            story.lines.clear()
            async with member(cluster, topic_name, partition_assignment_strategy=more) as third:
                await poll_until(
                    lambda: {len(one.assignment) for one in (first, second, third)} == {2},
                    first,
                    second,
                    third,
                )
            assert set(first.assignment) <= had
            revoked = [partitions for kind, partitions in story.lines if kind == "revoked"]
            assert len(revoked[0]) == (1 if assignor.startswith("Coop") else 3)

    asyncio.run(run())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_broker_that_does_not_answer_does_not_hold_the_end(
    monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    """The commit has a minute otherwise, and the farewell, behind it, half of one."""
    monkeypatch.setattr("kaa.client.group.membership.CLIENT_CLOSE_MS_MAX", 100)

    async def run(broker: Broker) -> None:
        settings = Cluster(broker.bootstrap_servers, protocol).settings("g")
        async with Consumer(settings) as consumer:
            consumer.subscribe(["t"])
            while not await consumer.poll(timeout_ms=1_000):
                pass
            broker.on("OffsetCommit").delay(PATIENCE_SECONDS)
            async with asyncio.timeout(PATIENCE_SECONDS / 6):
                await consumer.close()

    with Broker() as broker:
        broker.topic("t").seed(["a"])
        asyncio.run(run(broker))
