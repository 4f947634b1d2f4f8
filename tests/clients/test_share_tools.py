"""Java's share consumer against a running node, through the tools that Kafka ships."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.clients.librdkafka import create_topic, produce
from tests.clients.samples import Sample
from tests.oracle import Oracle
from tests.support.broker_process import BrokerProcess

# ConsoleShareConsumer counts in a static variable: two at once in one JVM disturb each other.
pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("console consumer")]

RECORDS = 20


@pytest.fixture
def bootstrap(quick_broker: BrokerProcess) -> str:
    """Of a node whose groups get their assignments soon."""
    return quick_broker.bootstrap_servers


class Share:
    """Kafka's tools for share groups on one node."""

    def __init__(self, oracle: Oracle, bootstrap: str) -> None:
        self.oracle = oracle
        self.bootstrap = bootstrap

    def run(self, tool: str, *arguments: str) -> str:
        done = self.oracle.run_tool(tool, "--bootstrap-server", self.bootstrap, *arguments)
        assert done.code == 0, done.out + done.err
        return done.out

    def begin_at_the_start(self, group: str) -> None:
        self.set(group, "share.auto.offset.reset=earliest")

    def set(self, group: str, *settings: str) -> None:
        self.run(
            "ConfigCommand",
            *("--alter", "--entity-type", "groups", "--entity-name", group),
            *("--add-config", ",".join(settings)),
        )

    def consume(self, group: str, topic: str, count: int, *options: str) -> list[str]:
        """What ConsoleShareConsumer prints until it has a number of records."""
        found = self.run(
            "ConsoleShareConsumer",
            *("--topic", topic, "--group", group, "--max-messages", str(count)),
            *("--timeout-ms", "30000", *options),
        )
        return found.splitlines()


@pytest.fixture
def share(oracle: Oracle, bootstrap: str) -> Share:
    return Share(oracle, bootstrap)


def fill(bootstrap: str, topic: str, partitions: int = 2) -> None:
    create_topic(bootstrap, topic, partitions)
    produce(
        bootstrap,
        topic,
        [Sample(None, b"%d" % number, 1_000 + number) for number in range(RECORDS)],
    )


def test_the_console_consumer_gets_every_record_once(
    share: Share, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic)
    share.begin_at_the_start(topic)
    lines = share.consume(topic, topic, RECORDS)
    assert sorted(lines, key=int) == [str(number) for number in range(RECORDS)]
    # Accepted records do not come again; what is new does.
    produce(bootstrap, topic, [Sample(None, b"new", 9_000)])
    assert share.consume(topic, topic, 1) == ["new"]


def test_released_records_come_again_and_rejected_ones_do_not(
    share: Share, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic, 1)
    share.begin_at_the_start(topic)
    shown = ("--formatter-property", "print.delivery=true")
    first = share.consume(topic, topic, RECORDS, "--release", *shown)
    assert {line.split("\t")[0] for line in first} == {"Delivery:1"}
    second = share.consume(topic, topic, RECORDS, "--reject", *shown)
    assert {line.split("\t")[0] for line in second} == {"Delivery:2"}
    produce(bootstrap, topic, [Sample(None, b"new", 9_000)])
    assert share.consume(topic, topic, 1)[-1] == "new"


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_the_verifiable_consumer_acknowledges_everything(
    share: Share, bootstrap: str, topic: str, mode: str
) -> None:
    fill(bootstrap, topic)
    out = share.run(
        "VerifiableShareConsumer",
        *("--topic", topic, "--group-id", f"{topic}-{mode}", "--max-messages", str(RECORDS)),
        *("--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest"),
    )
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    names = {event["name"] for event in events}
    assert {"startup_complete", "records_consumed", "offsets_acknowledged"} <= names
    assert sum(e["count"] for e in events if e["name"] == "records_consumed") == RECORDS
    told = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert all(event["success"] for event in told)
    assert sum(event["count"] for event in told) == RECORDS


def test_the_performance_tool_counts_every_record(share: Share, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic)
    share.begin_at_the_start(topic)
    out = share.run(
        "ShareConsumerPerformance",
        *("--topic", topic, "--group", topic, "--num-records", str(RECORDS)),
        *("--hide-header", "--timeout", "60000"),
    )
    assert f", {RECORDS}," in out


def test_groups_are_listed_described_reset_and_deleted(
    share: Share, bootstrap: str, topic: str
) -> None:
    def groups(*arguments: str) -> str:
        return share.run("ShareGroupCommand", *arguments)

    fill(bootstrap, topic, 1)
    share.begin_at_the_start(topic)
    assert len(share.consume(topic, topic, RECORDS)) == RECORDS
    assert topic in groups("--list").split()
    described = groups("--describe", "--group", topic, "--offsets").split()
    assert (described[-4:-2], described[-1]) == ([topic, "0"], "0")
    assert "Empty" in groups("--describe", "--group", topic, "--state").split()
    reset = ("--reset-offsets", "--group", topic, "--topic", topic, "--to-earliest")
    groups(*reset, "--execute")
    described = groups("--describe", "--group", topic, "--offsets").split()
    assert described[-4:] == [topic, "0", "0", str(RECORDS)]
    assert len(share.consume(topic, topic, RECORDS)) == RECORDS
    groups("--delete-offsets", "--group", topic, "--topic", topic)
    assert topic not in groups("--describe", "--group", topic, "--offsets").split()[4:]
    groups("--delete", "--group", topic)
    assert topic not in groups("--list").split()


def polls(share: Share, topic: str, count: int, **fields: Any) -> list[list[list[Any]]]:
    """What Java's share consumer gets, poll by poll, until it has accepted so many records."""
    item = {
        "bootstrap": share.bootstrap,
        "group": topic,
        "topic": topic,
        "count": count,
        "seconds": 120,
        "renew": False,
        "settings": {},
    } | fields
    found: list[list[list[Any]]] = share.oracle.jvm.call_one("share.consume", item, 150)["polls"]
    return found


def test_javas_consumer_keeps_records_for_longer(share: Share, bootstrap: str, topic: str) -> None:
    """What is renewed comes again to the same member, and is not a second delivery."""
    fill(bootstrap, topic, 1)
    share.begin_at_the_start(topic)
    found = [record for poll in polls(share, topic, RECORDS, renew=True) for record in poll]
    assert {count for _, count in found} == {1}
    assert sorted(value for value, _ in found) == sorted(2 * [str(one) for one in range(RECORDS)])
    described = share.run("ShareGroupCommand", "--describe", "--group", topic, "--offsets").split()
    assert described[-1] == "0"


def test_javas_consumer_gets_no_more_than_it_asks_for(
    share: Share, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic, 1)
    share.begin_at_the_start(topic)
    settings = {"share.acquire.mode": "record_limit", "max.poll.records": "3"}
    found = polls(share, topic, RECORDS, settings=settings)
    assert max(len(poll) for poll in found) <= 3
    assert sorted(value for poll in found for value, _ in poll) == sorted(
        str(number) for number in range(RECORDS)
    )


def test_javas_consumer_reads_what_is_committed(share: Share, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1)
    share.set(topic, "share.auto.offset.reset=earliest", "share.isolation.level=read_committed")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for number, end in enumerate(
        (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction)
    ):
        producer.begin_transaction()
        producer.produce(topic, str(number).encode())
        end(60)
    produce(bootstrap, topic, [Sample(None, b"last", 1_000)])
    found = [value for poll in polls(share, topic, 2) for value, _ in poll]
    assert found == ["1", "last"]
