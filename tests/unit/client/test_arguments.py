"""Bad arguments are refused at the door, and a text is one name."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from kaa.client import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, ShareConsumer, sync
from kaa.client.arguments import INT32_MAX, names_of, partitions_of, refuse_others, whole_number
from kaa.client.errors import ClientError, KafkaError, SerializationError
from kaa.model.kinds import ResourceType
from kaa.model.topics import TopicPartition
from kaa.testing import Broker
from tests.support.broker_process import BrokerProcess


class Whole:
    """As the whole numbers of numpy."""

    def __index__(self) -> int:
        return 7


def test_names() -> None:
    assert names_of("ab") == ["ab"]
    assert names_of(("a", "b")) == ["a", "b"]
    bad: Any
    for bad in (b"ab", ["a", None], [TopicPartition("a", 0)]):
        with pytest.raises(TypeError, match="is not the name of a topic"):
            names_of(bad)


@pytest.mark.parametrize("name", ["\ud800", "x" * 40_000], ids=["half", "long"])
def test_names_that_no_request_can_carry(name: str) -> None:
    async def send() -> None:
        async with Producer({"bootstrap.servers": "127.0.0.1:1"}) as producer:
            await producer.send(name, b"v")

    async def subscribe(**what: Any) -> None:
        settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
        async with Consumer(settings, group_protocol="consumer") as consumer:
            consumer.subscribe(**what)

    topic = r"the name of a topic '.{,60}' has "
    with pytest.raises(ValueError, match=topic):
        asyncio.run(send())
    with pytest.raises(ValueError, match=topic):
        asyncio.run(subscribe(topics=[name]))
    with pytest.raises(ValueError, match=r"the pattern '.{,60}' has "):
        asyncio.run(subscribe(pattern=name))
    with pytest.raises(ValueError, match=topic):
        partitions_of([TopicPartition(name, 1)])


def test_names_of_other_clients_are_told_from_unknown_ones() -> None:
    with pytest.raises(
        TypeError, match=r"send\(\) has no argument 'timestamp'; here it is time_ms"
    ):
        refuse_others("send", {"timestamp": 5}, timestamp="time_ms")
    with pytest.raises(TypeError, match=r"send\(\) has no argument 'value_'$"):
        refuse_others("send", {"value_": 5}, timestamp="time_ms")


@pytest.mark.parametrize("kind", [Producer, sync.Producer])
def test_a_timestamp_is_in_milliseconds(kind: Any) -> None:
    async def send() -> None:
        await kind({"bootstrap.servers": "127.0.0.1:1"}).send("t", b"x", timestamp=5)

    with pytest.raises(TypeError, match="here it is timestamp_ms"):
        asyncio.run(send())


def test_partitions() -> None:
    one = TopicPartition("a", 1)
    given: Any
    for given in (one, [one], [("a", 1)], [["a", 1]], iter([one])):
        assert partitions_of(given) == [one]
    given = [("a", Whole())]
    assert type(partitions_of(given)[0].partition) is int
    for given in ("a", ["a"], [("a", 1.0)], [("a", "1")], [(1, "a")]):
        with pytest.raises(TypeError):
            partitions_of(given)
    with pytest.raises(ValueError, match="a partition must be at most"):
        partitions_of([TopicPartition("a", INT32_MAX + 1)])


def test_whole_numbers() -> None:
    assert whole_number(Whole(), "x") == 7
    for given, rest in (
        (1.0, "not a float; round it with int()"),
        (1731000000000.5, "not a float; round it with int()"),
        ("1", "not a str; convert it with int()"),
        (None, "not None"),
    ):
        with pytest.raises(TypeError) as refused:
            whole_number(given, "x")
        assert str(refused.value) == f"x must be a whole number, {rest}"
    with pytest.raises(ValueError, match="x cannot be negative"):
        whole_number(-1, "x")
    with pytest.raises(ValueError, match="x must be at most"):
        whole_number(2**63, "x")


# Calls with a text, by method and argument: those whose answer names what was asked for, and those
# that would be refused, or would find nothing, for names of one letter.
NAMES: dict[tuple[str, str], Callable[[Admin], Awaitable[Any]]] = {
    ("create_topics", "topics"): lambda admin: admin.create_topics("ab"),
    ("describe_topics", "names"): lambda admin: admin.describe_topics("ab"),
    ("delete_topics", "names"): lambda admin: admin.delete_topics("ab"),
    ("describe_groups", "names"): lambda admin: admin.describe_groups("ab"),
    ("delete_groups", "names"): lambda admin: admin.delete_groups("ab"),
    ("describe_transactions", "transactional_ids"): lambda admin: admin.describe_transactions("ab"),
    ("fence_producers", "transactional_ids"): lambda admin: admin.fence_producers("ab"),
}
FILTERS: dict[tuple[str, str], Callable[[Admin], Awaitable[Any]]] = {
    ("list_groups", "states"): lambda admin: admin.list_groups(states="Stable"),
    ("list_groups", "types"): lambda admin: admin.list_groups(types="classic"),
    ("list_transactions", "states"): lambda admin: admin.list_transactions(states="Ongoing"),
    ("describe_configs", "names"): lambda admin: admin.describe_configs(
        ResourceType.BROKER, "1", "log.retention.ms"
    ),
    ("remove_members", "instance_ids"): lambda admin: admin.remove_members("g", instance_ids="ab"),
    ("remove_members", "member_ids"): lambda admin: admin.remove_members("g", member_ids="ab"),
    ("delete_share_group_offsets", "topics"): lambda admin: admin.delete_share_group_offsets(
        "g", "ab"
    ),
}


def test_no_call_with_names_is_left_out() -> None:
    found = {
        (name, argument.name)
        for name, method in inspect.getmembers(Admin, inspect.isfunction)
        for argument in inspect.signature(method).parameters.values()
        for kind in ("Iterable[str]", "Sequence[str]", "Iterable[NewTopic | str]")
        if not name.startswith("_") and kind in str(argument.annotation)
    }
    assert found == NAMES.keys() | FILTERS.keys()


def test_a_text_is_one_name(kaa_node: BrokerProcess) -> None:
    settings = {"bootstrap.servers": kaa_node.bootstrap_servers}

    async def run() -> None:
        async with Admin(settings) as admin:
            one: Any = NewTopic("ab", 1, 1)
            await admin.create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1)])
            for call in NAMES.values():
                assert set(await call(admin)) == {"ab"}
            for (method, _), call in FILTERS.items():
                if method in {"remove_members", "delete_share_group_offsets"}:
                    # There is no such group, which is another matter.
                    with suppress(ClientError):
                        await call(admin)
                else:
                    await call(admin)
            described = await admin.describe_topics(["a", "b"])
            assert not any(isinstance(one, ClientError) for one in described.values())
            assert await admin.delete_topics(["a", "b"]) == {"a": None, "b": None}
            assert await admin.create_topics(one) == {"ab": None}
        group = {**settings, "group.id": "arguments"}
        async with Consumer(group) as consumer, ShareConsumer(group) as shares:
            consumer.subscribe("ab")
            shares.subscribe("ab")
            assert shares.subscription == {"ab"}

    asyncio.run(run())


def test_no_bad_argument_ends_the_consumer(kaa_node: BrokerProcess, topic_name: str) -> None:
    servers = {"bootstrap.servers": kaa_node.bootstrap_servers}
    settings = {**servers, "group.id": topic_name, "auto.offset.reset": "earliest"}
    partition = TopicPartition(topic_name, 0)

    async def run() -> None:
        async with Producer(servers) as producer:
            await (await producer.send(topic_name, b"v"))
        async with Consumer(settings) as consumer:
            bad: Any
            for bad in (topic_name, [topic_name], [(topic_name, "0")], [(topic_name, 0.0)]):
                for call in (consumer.assign, consumer.pause, consumer.resume):
                    with pytest.raises(TypeError):
                        call(bad)
                for wait in (consumer.end_offsets, consumer.seek_to_end, consumer.committed):
                    with pytest.raises(TypeError):
                        await wait(bad)
            one: Any = partition
            consumer.assign(one)
            for bad in (0.0, "0", None):
                with pytest.raises(TypeError):
                    consumer.seek(partition, bad)
                with pytest.raises(TypeError):
                    consumer.commit_async({partition: bad})
                with pytest.raises(TypeError):
                    await consumer.commit({partition: OffsetAndMetadata(bad)})
            bad = b"x"
            with pytest.raises(TypeError, match="is text"):
                await consumer.commit({partition: OffsetAndMetadata(1, bad)})
            with pytest.raises(ValueError, match="negative"):
                consumer.seek(partition, -1)
            assert len((await consumer.poll(10_000))[partition]) == 1
            await consumer.commit()

    asyncio.run(run())


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_what_is_clearly_meant_is_done(broker: Broker) -> None:
    async def run() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            pairs: Any = [("second", 2)]
            assert await admin.create_topics({"first": 3}) == {"first": None}
            assert await admin.create_topics(pairs) == {"second": None}
            assert len((await admin.describe_topic("first")).partitions) == 3
            assert len((await admin.describe_topic("second")).partitions) == 2
            one = TopicPartition("first", 0)
            for time in ("earliest", "latest"):
                assert (await admin.list_offsets({one: time}))[one].offset == 0
            await admin.alter_configs("topic", "first", {"retention.ms": 5000})
            (entry,) = await admin.describe_configs("topic", "first", ["retention.ms"])
            assert entry.value == "5000"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("num_partitions", "; here it is partitions"),
        ("config", "; here it is configs"),
        ("topic_configs", "; here it is configs"),
        ("replica_assignments", "; here it is assignments"),
        ("colour", ""),
    ],
)
def test_fields_of_a_topic_have_names_of_their_own(name: str, ours: str) -> None:
    given: dict[str, Any] = {name: 3}
    with pytest.raises(TypeError) as refused:
        NewTopic("t", **given)
    assert str(refused.value) == f"NewTopic() has no argument {name!r}{ours}"


def test_a_new_topic_is_a_tuple_of_its_fields() -> None:
    topic = NewTopic("t", partitions=3)
    assert tuple(topic) == ("t", 3, -1, {}, {})
    assert topic._replace(partitions=4) == NewTopic("t", 4)
    assert repr(topic).startswith("NewTopic(name='t', partitions=3")


ONE = TopicPartition("t", 0)
REFUSED: dict[str, tuple[Callable[[Any], Awaitable[Any]], type[Exception], str]] = {
    "partitions as text": (
        lambda admin: admin.create_topics([NewTopic("q", partitions="3")]),  # type: ignore[arg-type]
        TypeError,
        "the number of partitions of 'q' must be a whole number",
    ),
    "a number for a topic": (lambda admin: admin.create_topics([3]), TypeError, "not a topic"),
    "a count as text": (
        lambda admin: admin.create_partitions({"t": "2"}),
        TypeError,
        "of 't' must be a",
    ),
    "a list of counts": (lambda admin: admin.create_partitions(["t"]), TypeError, "a dictionary"),
    "no names": (lambda admin: admin.delete_topics(None), TypeError, "None is not the name of"),
    "no such time": (lambda admin: admin.list_offsets({ONE: "noon"}), ValueError, "max-timestamp"),
    "no time": (lambda admin: admin.list_offsets([ONE]), TypeError, "give one of partitions"),
    "a topic's time": (lambda admin: admin.list_offsets("t"), TypeError, "not a dictionary"),
    "a topic's offset": (lambda admin: admin.delete_records({"t": 1}), TypeError, "TopicPartition"),
    "below everything": (lambda admin: admin.delete_records({ONE: -5}), ValueError, "at least -1"),
    "no resource": (lambda admin: admin.alter_configs("tpic", "t", {}), TypeError, "'topic', "),
    "no change": (lambda admin: admin.alter_configs("topic", "t", ["a=b"]), TypeError, "ConfigCh"),
    "changes that are none": (
        lambda admin: admin.alter_configs("topic", "t", None),
        TypeError,
        "ConfigCh",
    ),
    "a name without its kind": (
        lambda admin: admin.describe_configs("h"),
        TypeError,
        r"are \('topic', 'h'\)",
    ),
    "a list of resources": (
        lambda admin: admin.describe_configs(["h"]),
        TypeError,
        r"are \('topic', 'its name'\)",
    ),
    "changes without a kind": (
        lambda admin: admin.alter_configs("h", {"retention.ms": 5}),
        TypeError,
        r"are \('topic', 'h'\)",
    ),
    "no changes": (lambda admin: admin.alter_configs("topic", "h"), TypeError, "ConfigCh"),
    "a number for a name": (
        lambda admin: admin.describe_configs("broker", 1),
        TypeError,
        "1 is not the name of a broker; names are text",
    ),
    "no id of a broker": (
        lambda admin: admin.describe_configs("broker", "one"),
        ValueError,
        "'one' is not the id of a broker",
    ),
    "no topics": (lambda admin: admin.create_topics(None), TypeError, "None is not a topic"),
    "no group": (lambda admin: admin.list_group_offsets([]), TypeError, "the name of a group"),
    "no share group": (
        lambda admin: admin.list_share_group_offsets({}),
        TypeError,
        "the name of a group",
    ),
    "no offsets": (lambda admin: admin.alter_group_offsets("g", None), TypeError, "a dictionary"),
    "no share offsets": (
        lambda admin: admin.alter_share_group_offsets("g", ["t"]),
        TypeError,
        "a dictionary",
    ),
    "a share offset as text": (
        lambda admin: admin.alter_share_group_offsets("g", {ONE: "1"}),
        TypeError,
        "an offset must be a whole number",
    ),
    "no partitions": (
        lambda admin: admin.delete_group_offsets("g", None),
        TypeError,
        "None is not a partition",
    ),
    "no plan": (
        lambda admin: admin.alter_partition_reassignments(None),
        TypeError,
        "give one of partitions and",
    ),
    "one replica without a list": (
        lambda admin: admin.alter_partition_reassignments({ONE: 1}),
        TypeError,
        "replicas of t-0 are a list of broker ids, not 1",
    ),
    "a replica as text": (
        lambda admin: admin.alter_partition_reassignments({ONE: ["1"]}),
        TypeError,
        "a broker id must be a whole number",
    ),
    "a topic's plan": (
        lambda admin: admin.alter_partition_reassignments({"t": [1]}),
        TypeError,
        "TopicPartition",
    ),
    "no directory": (
        lambda admin: admin.alter_replica_log_dirs(None),
        TypeError,
        "give one of pairs of a broker id and a partition",
    ),
    "a directory of no broker": (
        lambda admin: admin.alter_replica_log_dirs({ONE: "/d"}),
        TypeError,
        "is not a pair of a broker id and a partition",
    ),
    "a broker as text": (
        lambda admin: admin.describe_log_dirs(["a"]),
        TypeError,
        "a broker id must be a whole number",
    ),
    "no transaction": (
        lambda admin: admin.abort_transaction(None, 1, 0),
        TypeError,
        "None is not a partition",
    ),
    "no producers": (
        lambda admin: admin.list_transactions(producer_ids=["a"]),
        TypeError,
        "a producer id must be a whole number",
    ),
    "a duration as text": (
        lambda admin: admin.list_transactions(running_longer_than_ms="1"),
        TypeError,
        "running_longer_than_ms must be a whole number",
    ),
    "no features": (
        lambda admin: admin.update_features(None),
        TypeError,
        "give one of features and levels",
    ),
    "no producer": (
        lambda admin: admin.abort_transaction(ONE, -1, 0),
        ValueError,
        "a producer id cannot be negative",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_rest_is_refused_with_what_to_give(broker: Broker, case: str) -> None:
    call, kind, text = REFUSED[case]

    async def run() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            with pytest.raises(kind, match=text):
                await call(admin)

    asyncio.run(run())


def test_errors_that_say_what_to_do_here(broker: Broker) -> None:
    async def run() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topics(["c_d"])
            error = (await admin.create_topics(["c.d"]))["c.d"]
            assert "differs in more than '.' and '_'" in str(error)
            with pytest.raises(KafkaError, match="an offset up to the end of the partition"):
                await admin.delete_records({TopicPartition("c_d", 0): 7})
            with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
                await admin.group_lag("absent")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            with pytest.raises(KafkaError, match="name a partition that exists"):
                await producer.send("c_d", b"x", partition=9)
            for wrong in ({"value": "\udcff"}, {"key": "\udcff"}, {"headers": {"\udcff": b""}}):
                bad: Any = wrong
                with pytest.raises(SerializationError, match=r"not UTF-8 .* as bytes"):
                    await producer.send("c_d", **bad)

    asyncio.run(run())


@pytest.mark.parametrize("given", [1.0, "5"])
def test_waits_are_in_milliseconds(broker: Broker, given: Any) -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        async with Consumer(settings) as consumer, ShareConsumer(settings) as shares:
            consumer.assign([ONE])
            shares.subscribe(["t"])
            wait: Callable[..., Awaitable[Any]]
            for wait in (consumer.poll, shares.poll):
                with pytest.raises(TypeError, match=r"milliseconds, not .*timeout_ms=1000"):
                    await wait(given)
            assert await consumer.poll(Whole()) == {}  # type: ignore[arg-type]

    asyncio.run(run())


def test_a_pattern_that_is_none_leaves_the_consumer_as_it_was(broker: Broker) -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        async with Consumer(settings) as consumer:
            with pytest.raises(ValueError, match=r"'\(' is not a pattern"):
                consumer.subscribe(pattern="(")
            consumer.assign([ONE])

    asyncio.run(run())


CONSUMER_REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "assign": (lambda consumer: consumer.assign(None), "None is not a partition"),
    "pause": (lambda consumer: consumer.pause(7), "7 is not a partition"),
    "position": (lambda consumer: consumer.position("t"), "'t' is not a partition"),
    "high_watermark": (lambda consumer: consumer.high_watermark([]), "is not a partition"),
    "seek": (lambda consumer: consumer.seek(None, 1), "None is not a partition"),
    "commit": (lambda consumer: consumer.commit([ONE]), "give one of partitions and offsets"),
    "times": (lambda consumer: consumer.offsets_for_times([ONE]), "give one of partitions and"),
    "wait": (
        lambda consumer: consumer.fetch_batches(ONE, 0, 1, max_wait_ms=None),
        "max_wait_ms must be a whole number, not None",
    ),
    "bytes": (
        lambda consumer: consumer.fetch_batches(ONE, 0, "1"),
        "max_bytes must be a whole number",
    ),
    "offset": (
        lambda consumer: consumer.fetch_batches(ONE, None, 1),
        "an offset must be a whole number",
    ),
    "records": (lambda consumer: consumer.poll(10, 1.5), "max_records must be a whole number"),
}


@pytest.mark.parametrize("case", CONSUMER_REFUSED)
def test_a_consumer_says_what_to_give(broker: Broker, case: str) -> None:
    call, text = CONSUMER_REFUSED[case]

    async def run() -> None:
        servers = broker.bootstrap_servers
        async with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
            with pytest.raises(TypeError, match=text):
                await _done(call, consumer)

    asyncio.run(run())


async def _done(call: Callable[[Any], Any], consumer: Consumer) -> None:
    """Some of the calls are done at once."""
    found = call(consumer)
    if found is not None:
        await found


def test_a_partition_that_is_not_there_says_which_are(broker: Broker) -> None:
    async def run() -> None:
        servers = broker.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.create_topics([NewTopic("of-one", 1), NewTopic("of-two", 2)])
        async with Producer(bootstrap_servers=servers) as producer:
            for topic, has in (("of-one", "partition 0 alone"), ("of-two", "partitions 0 to 1")):
                with pytest.raises(KafkaError, match=f"the topic has {has}"):
                    await producer.send(topic, b"x", partition=2)

    asyncio.run(run())


def test_headers_that_are_none(broker: Broker) -> None:
    async def run() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for wrong in (True, 7):
                bad: Any = wrong
                with pytest.raises(SerializationError, match="give a dictionary, or pairs"):
                    await producer.send("headers", b"x", headers=bad)

    asyncio.run(run())
