"""The consumer protocol (KIP-848) of librdkafka and Java against a running node."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, KafkaException
from confluent_kafka.admin import AdminClient

from tests.clients.groups import Audit, Feed, LibrdkafkaMember, wait_for
from tests.clients.librdkafka import create_topic
from tests.clients.test_groups import PROGRAM
from tests.oracle import Oracle
from tests.support.broker_process import BrokerProcess
from tests.support.children import running

PARTITIONS = 12
CONSUMER = {"group_protocol": "consumer"}


@pytest.fixture
def bootstrap(quick_broker: BrokerProcess) -> str:
    return quick_broker.bootstrap_servers


def member(audit: Audit, bootstrap: str, topic: str, name: str, **more: Any) -> LibrdkafkaMember:
    return LibrdkafkaMember(audit, bootstrap, topic, name, group_id=topic, **CONSUMER, **more)


def test_members_join_and_leave(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    audit = Audit()
    feed = Feed(bootstrap, topic)
    members = [member(audit, bootstrap, topic, "m0")]
    wait_for(lambda: audit.is_balanced(["m0"], PARTITIONS))
    members += [member(audit, bootstrap, topic, f"m{number}") for number in range(1, 10)]
    wait_for(lambda: audit.is_balanced([one.name for one in members], PARTITIONS))
    for one in members[1:6]:
        one.leave()
    left = [members[0], *members[6:]]
    wait_for(lambda: audit.is_balanced([one.name for one in left], PARTITIONS))
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    for one in left:
        one.leave()
    assert audit.breaches == []
    assert [error for one in members for error in one.errors] == []


def test_a_member_that_dies_is_replaced_after_its_session(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 4)
    audit = Audit()
    feed = Feed(bootstrap, topic)
    survivor = member(audit, bootstrap, topic, "survivor")
    wait_for(lambda: audit.is_balanced(["survivor"], 4))
    program = PROGRAM.replace(
        '"session.timeout.ms": 6000, "heartbeat.interval.ms": 300', '"group.protocol": "consumer"'
    )
    arguments = [sys.executable, "-c", program, bootstrap, topic, topic]
    with running(arguments, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        # It may get an empty assignment first.
        assert json.loads(victim.stdout.readline())[0] == "assigned"
        wait_for(lambda: audit.share() == {"survivor": 2})
        victim.send_signal(signal.SIGKILL)
    wait_for(lambda: audit.is_balanced(["survivor"], 4))
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    survivor.leave()
    assert audit.breaches == []


def test_a_static_member_that_restarts_keeps_its_partitions(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 4)
    audit = Audit()
    one = member(audit, bootstrap, topic, "one", group_instance_id="one")
    two = member(audit, bootstrap, topic, "two", group_instance_id="two")
    wait_for(lambda: audit.is_balanced(["one", "two"], 4))
    before = {partition for partition, owner in audit.owners.items() if owner == "two"}
    two.leave()
    rebalances = audit.assignments
    two = member(audit, bootstrap, topic, "two", group_instance_id="two")
    wait_for(lambda: audit.is_balanced(["one", "two"], 4))
    assert {partition for partition, owner in audit.owners.items() if owner == "two"} == before
    assert audit.assignments == rebalances + 1, "only the one that came back was assigned"
    one.leave()
    two.leave()
    assert audit.breaches == []


def test_topics_by_regular_expression(bootstrap: str, topic: str) -> None:
    for name in ("a", "b", "other"):
        create_topic(bootstrap, f"{topic}.{name}", 2)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "group.protocol": "consumer"}
    )
    consumer.subscribe([f"^{topic}[.][ab]$"])

    def owned() -> set[tuple[str, int]]:
        consumer.poll(0.1)
        return {(one.topic, one.partition) for one in consumer.assignment()}

    wait_for(lambda: owned() == {(f"{topic}.{name}", n) for name in "ab" for n in (0, 1)})
    consumer.close()


# The sticky assignor of librdkafka keeps data of its own in assignments, so that coordinators, also
# Kafka's, leave such a group as it is.
@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_a_group_changes_its_protocol_and_back(bootstrap: str, topic: str, strategy: str) -> None:
    """Members are replaced one protocol by the other while the group goes on reading."""
    create_topic(bootstrap, topic, 6)
    audit = Audit()
    feed = Feed(bootstrap, topic)
    classic = {"group_id": topic, "partition_assignment_strategy": strategy}
    old = [LibrdkafkaMember(audit, bootstrap, topic, f"c{n}", **classic) for n in range(2)]
    wait_for(lambda: audit.is_balanced(["c0", "c1"], 6))
    new = [member(audit, bootstrap, topic, f"n{number}") for number in range(2)]
    wait_for(lambda: audit.is_balanced(["c0", "c1", "n0", "n1"], 6))
    for one in old:
        one.leave()
    wait_for(lambda: audit.is_balanced(["n0", "n1"], 6))
    back = LibrdkafkaMember(audit, bootstrap, topic, "b0", **classic)
    wait_for(lambda: audit.is_balanced(["b0", "n0", "n1"], 6))
    for one in new:
        one.leave()
    wait_for(lambda: audit.is_balanced(["b0"], 6))
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    back.leave()
    assert audit.breaches == []
    assert [error for one in (*old, *new, back) for error in one.errors] == []


def test_a_restart_in_the_middle(own_broker: BrokerProcess, topic: str) -> None:
    """Members keep their epochs and partitions over a kill of the coordinator."""
    bootstrap = own_broker.bootstrap_servers
    create_topic(bootstrap, topic, 6)
    audit = Audit()
    feed = Feed(bootstrap, topic)
    members = [member(audit, bootstrap, topic, f"m{number}") for number in range(3)]
    names = [one.name for one in members]
    wait_for(lambda: audit.is_balanced(names, 6))
    owners = dict(audit.owners)
    own_broker.kill()
    own_broker.start()
    read = len(audit.read)
    wait_for(lambda: len(audit.read) > read + 100)
    assert audit.owners == owners
    late = member(audit, bootstrap, topic, "late")
    wait_for(lambda: audit.is_balanced([*names, "late"], 6))
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    for one in (*members, late):
        one.leave()
    assert audit.breaches == []


def test_administration(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    audit = Audit()
    one = member(audit, bootstrap, topic, "m", client_id="me")
    wait_for(lambda: audit.is_balanced(["m"], 2))
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def listed(**filters: Any) -> dict[str, Any]:
        found = admin.list_consumer_groups(**filters).result(20)
        return {group.group_id: (group.type, group.state) for group in found.valid}

    kind = ConsumerGroupType.CONSUMER
    assert listed(types={kind})[topic] == (kind, ConsumerGroupState.STABLE)
    assert topic not in listed(types={ConsumerGroupType.CLASSIC})
    described = admin.describe_consumer_groups([topic])[topic].result(20)
    assert (described.type, described.partition_assignor) == (kind, "uniform")
    (found,) = described.members
    assert (found.client_id, found.host) == ("me", "/127.0.0.1")
    assert sorted(part.partition for part in found.assignment.topic_partitions) == [0, 1]
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([topic])[topic].result(20)
    one.leave()
    admin.delete_consumer_groups([topic])[topic].result(20)
    assert topic not in listed()


@pytest.mark.oracle
@pytest.mark.xdist_group("console consumer")
class TestTools:
    """Java's consumer, and the tools that look after groups."""

    def run(self, oracle: Oracle, tool: str, bootstrap: str, *arguments: str) -> str:
        done = oracle.run_tool(tool, "--bootstrap-server", bootstrap, *arguments)
        assert done.code == 0, done.out + done.err
        return done.out

    def rows(self, text: str) -> list[list[str]]:
        lines = [line.split() for line in text.splitlines() if line.strip()]
        head = next(index for index, words in enumerate(lines) if words[0].isupper())
        return lines[head + 1 :]

    def test_console_consumer(self, oracle: Oracle, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 2)
        feed = Feed(bootstrap, topic, 0.001)
        wait_for(lambda: len(feed.sent) >= 20)
        feed.stop()
        consume = ("--topic", topic, "--group", topic, "--timeout-ms", "10000")
        options = ("--command-property", "group.protocol=consumer", "--max-messages", "10")
        first = self.run(
            oracle, "ConsoleConsumer", bootstrap, *consume, "--from-beginning", *options
        )
        second = self.run(oracle, "ConsoleConsumer", bootstrap, *consume, *options)
        read = first.split() + second.split()
        assert len(set(read)) == len(read) == 20, (
            "the second one goes on where the first one stopped"
        )

    def test_describe(self, oracle: Oracle, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 2)
        audit = Audit()
        one = member(audit, bootstrap, topic, "m", client_id="me", group_instance_id="i")
        wait_for(lambda: audit.is_balanced(["m"], 2))

        def described(*how: str) -> list[list[str]]:
            arguments = ("--describe", "--group", topic, *how)
            return self.rows(self.run(oracle, "ConsumerGroupCommand", bootstrap, *arguments))

        (state,) = described("--state", "--verbose")
        assert state[3:] == ["uniform", "Stable", "2", "2", "1"]
        (found,) = described("--members", "--verbose")
        assert "i" in found
        assert f"{topic}:0,1" in found
        assert found[-1] == f"{topic}:0,1", "current and target assignment are the same"
        positions = described("--verbose")
        assert sorted(int(row[2]) for row in positions) == [0, 1]
        groups = self.rows(self.run(oracle, "GroupsCommand", bootstrap, "--list", "--consumer"))
        assert [topic, "Consumer", "consumer"] in groups
        listing = self.run(
            oracle, "ConsumerGroupCommand", bootstrap, "--list", "--type", "consumer"
        )
        assert [topic, "Consumer"] in self.rows(listing)
        one.leave()

    def test_offsets_of_an_empty_group(self, oracle: Oracle, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1)
        feed = Feed(bootstrap, topic)
        wait_for(lambda: len(feed.sent) >= 10)
        count = len(feed.stop())
        audit = Audit()
        one = member(audit, bootstrap, topic, "m")
        wait_for(lambda: len(audit.read) == count)
        group = ("--group", topic)
        reset = (*group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
        refused = self.run(oracle, "ConsumerGroupCommand", bootstrap, *reset)
        assert "can only be reset if the group" in refused
        one.leave()
        (row,) = self.rows(self.run(oracle, "ConsumerGroupCommand", bootstrap, *reset))
        assert row[:4] == [topic, topic, "0", "0"]
        delete = (*group, "--topic", topic, "--delete-offsets")
        assert "Successful" in self.run(oracle, "ConsumerGroupCommand", bootstrap, *delete)
        gone = self.run(oracle, "ConsumerGroupCommand", bootstrap, *group, "--delete")
        assert "was successful" in gone

    def test_verifiable_consumer(self, oracle: Oracle, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 3)
        feed = Feed(bootstrap, topic)
        wait_for(lambda: len(feed.sent) >= 50)
        feed.stop()
        out = self.run(
            oracle,
            "VerifiableConsumer",
            bootstrap,
            *("--topic", topic, "--group-id", topic, "--group-protocol", "consumer"),
            *("--reset-policy", "earliest", "--max-messages", "50"),
        )
        events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        kinds = [event["name"] for event in events]
        assert "partitions_assigned" in kinds
        assert sum(one["count"] for one in events if one["name"] == "records_consumed") >= 50
        commits = [event for event in events if event["name"] == "offsets_committed"]
        assert commits
        assert all(event["success"] for event in commits)
