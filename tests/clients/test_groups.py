"""Consumer groups of librdkafka: members come, go and die, and nothing is read twice at a time or
not at all.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.groups import Audit, Feed, LibrdkafkaMember, wait_for
from tests.clients.librdkafka import create_topic, watermarks
from tests.support.broker_process import BrokerProcess
from tests.support.children import running

PARTITIONS = 12

# A member that says what it owns, and dies with its parent.
PROGRAM = """
import json, sys
from confluent_kafka import Consumer
bootstrap, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group,
                     "session.timeout.ms": 6000, "heartbeat.interval.ms": 300,
                     "enable.auto.commit": False, "auto.offset.reset": "earliest"})
def told(kind):
    def tell(consumer, partitions):
        print(json.dumps([kind, [one.partition for one in partitions]]), flush=True)
    return tell
consumer.subscribe([topic], on_assign=told("assigned"), on_revoke=told("revoked"))
while True:
    consumer.poll(0.1)
"""


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_join_and_leave(bootstrap: str, topic: str, strategy: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    audit = Audit()
    feed = Feed(bootstrap, topic)
    settings = {"group_id": topic, "partition_assignment_strategy": strategy}
    members = [LibrdkafkaMember(audit, bootstrap, topic, "m0", **settings)]
    wait_for(lambda: audit.is_balanced(["m0"], PARTITIONS))
    members += [
        LibrdkafkaMember(audit, bootstrap, topic, f"m{number}", **settings)
        for number in range(1, 10)
    ]
    names = [member.name for member in members]
    wait_for(lambda: audit.is_balanced(names, PARTITIONS))
    for member in members[1:6]:
        member.leave()
    left = [members[0], *members[6:]]
    wait_for(lambda: audit.is_balanced([member.name for member in left], PARTITIONS))
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    for member in left:
        member.leave()
    assert audit.breaches == []
    assert [error for member in members for error in member.errors] == []


def test_a_member_that_dies_is_replaced_after_its_session(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 4)
    audit = Audit()
    feed = Feed(bootstrap, topic)
    survivor = LibrdkafkaMember(audit, bootstrap, topic, "survivor", group_id=topic)
    wait_for(lambda: audit.is_balanced(["survivor"], 4))
    arguments = [sys.executable, "-c", PROGRAM, bootstrap, topic, topic]
    with running(arguments, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        kind, owned = json.loads(victim.stdout.readline())
        assert (kind, len(owned)) == ("assigned", 2)
        wait_for(lambda: audit.share() == {"survivor": 2})
        victim.send_signal(signal.SIGKILL)
        died = time.monotonic()
    wait_for(lambda: audit.is_balanced(["survivor"], 4))
    # Its session ends 6 s after its last heartbeat, which was at most 0.3 s old.
    assert 5.0 < time.monotonic() - died < 40.0
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    survivor.leave()
    assert audit.breaches == []


def test_a_static_member_that_restarts_keeps_its_partitions(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 4)
    audit = Audit()

    def member(name: str) -> LibrdkafkaMember:
        return LibrdkafkaMember(
            audit, bootstrap, topic, name, group_id=topic, group_instance_id=name
        )

    one, two = member("one"), member("two")
    wait_for(lambda: audit.is_balanced(["one", "two"], 4))
    before = {partition for partition, owner in audit.owners.items() if owner == "two"}
    # A static member does not leave when it closes.
    two.leave()
    rebalances = audit.assignments
    two = member("two")
    wait_for(lambda: audit.is_balanced(["one", "two"], 4))
    assert {partition for partition, owner in audit.owners.items() if owner == "two"} == before
    assert audit.assignments == rebalances + 1, "only the one that came back was assigned"
    one.leave()
    two.leave()
    assert audit.breaches == []


def test_offsets_survive_a_kill_and_a_restart(own_broker: BrokerProcess, topic: str) -> None:
    bootstrap = own_broker.bootstrap_servers
    create_topic(bootstrap, topic, 3)
    audit = Audit()
    feed = Feed(bootstrap, topic, 0.0005)
    # A session that outlives the restart: a member that hears nothing for a session counts its
    # partitions as lost, and has nothing to commit when it leaves before it has joined again.
    settings = {"group_id": topic, "session_timeout_ms": 60_000}
    member = LibrdkafkaMember(audit, bootstrap, topic, "m", **settings)
    wait_for(lambda: len(audit.read) > 500)
    own_broker.kill()
    own_broker.start()
    wait_for(lambda: len(audit.read) > 1_000)
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    member.leave()
    own_broker.stop()
    own_broker.start()
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    partitions = [TopicPartition(topic, number) for number in range(3)]
    committed = reader.committed(partitions, timeout=20)
    ends = [watermarks(reader, one)[1] for one in partitions]
    reader.close()
    assert [one.offset for one in committed] == ends
    assert max(audit.read.values()) <= 2, "read again at most once, after the kill"


def test_administration(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    audit = Audit()
    member = LibrdkafkaMember(audit, bootstrap, topic, "m", group_id=topic, client_id="me")
    wait_for(lambda: audit.is_balanced(["m"], 2))
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def states(**filters: Any) -> dict[str, Any]:
        listed = admin.list_consumer_groups(**filters).result(20)
        return {group.group_id: group.state for group in listed.valid}

    # Other parts of what the broker coordinates may still be loading, which refuses the whole list.
    wait_for(lambda: states().get(topic) is ConsumerGroupState.STABLE)
    assert topic not in states(states={ConsumerGroupState.EMPTY})
    described = admin.describe_consumer_groups([topic])[topic].result(20)
    (found,) = described.members
    assert (found.client_id, found.host) == ("me", "/127.0.0.1")
    assert sorted(one.partition for one in found.assignment.topic_partitions) == [0, 1]
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([topic])[topic].result(20)
    member.leave()
    assert states(states={ConsumerGroupState.EMPTY})[topic] is ConsumerGroupState.EMPTY
    admin.delete_consumer_groups([topic])[topic].result(20)
    assert topic not in states()
