"""Kafka's verifiable consumers, which are killed, stopped and started again, as is the node.

A verifiable producer goes on sending all the while; it does not try again what the node did not
acknowledge. In the end every record that the node acknowledged was read by some consumer, and the
group has committed everything there is. What the programs did they print as lines of JSON.
"""

from __future__ import annotations

import itertools
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from tests.clients.conftest import QUICK_SESSIONS
from tests.clients.librdkafka import consumer, create_topic, watermarks
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.exactly_once.java import Java, Program

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

TOPIC = "numbers"
GROUP = "verifiers"
PARTITIONS = 6
RECORDS_PER_SECOND = 200
# What is done to which of the three consumers, in this order.
CHURN = ("kill 0", "stop 1", "kill 2", "node", "stop 0", "kill 1", "kill 2", "stop 2")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A node of one's own whose consumer groups have short times."""
    with BrokerProcess(tmp_path / "node", *QUICK_SESSIONS) as running:
        yield running


class Churn:
    """The consumers that run, and all that ever ran."""

    def __init__(self, java: Java, node: BrokerProcess, protocols: tuple[str, ...]) -> None:
        self._java, self._node, self._protocols = java, node, protocols
        self.all: list[Program] = []
        self.running = [self._start(number) for number in range(len(protocols))]

    def _start(self, number: int) -> Program:
        protocol = self._protocols[number]
        # Members of the consumer protocol have this time from the coordinator.
        session = ("--session-timeout", "6000") if protocol == "classic" else ()
        program = self._java.run(
            "org.apache.kafka.tools.VerifiableConsumer",
            *("--bootstrap-server", self._node.bootstrap_servers, "--topic", TOPIC),
            *("--group-id", GROUP, "--group-protocol", protocol, *session),
        )
        self.all.append(program)
        return program

    def do(self, what: str) -> None:
        """Kills or stops one, and starts another in its place; or kills the node."""
        verb, _, number = what.partition(" ")
        if verb == "node":
            self._node.kill()
            self._node.start()
            return
        program = self.running[int(number)]
        assert program.is_running, program.output[-2000:]
        if verb == "kill":
            program.kill()
        else:
            program.wait_for("startup_complete", PATIENCE_SECONDS)
            stop(program)
        self.running[int(number)] = self._start(int(number))

    def read(self) -> set[tuple[int, int]]:
        """Partitions and offsets of all records that were read."""
        found: set[tuple[int, int]] = set()
        for program in self.all:
            for event in events(program, "records_consumed"):
                for part in event["partitions"]:
                    offsets = range(part["minOffset"], part["maxOffset"] + 1)
                    assert part["count"] == len(offsets), f"records are missing from {part}"
                    found.update((part["partition"], offset) for offset in offsets)
        return found

    def wait_for_progress(self) -> None:
        """Waits until every consumer has partitions and reads."""
        counts = [len(events(program, "records_consumed")) for program in self.running]

        def has_come() -> bool:
            return all(
                len(events(program, "records_consumed")) > count
                for program, count in zip(self.running, counts, strict=True)
            )

        assert wait_until(has_come, PATIENCE_SECONDS), [one.output[-1000:] for one in self.running]


def events(program: Program, name: str) -> list[dict[str, Any]]:
    """What a program printed of one kind; the last line of a killed one may be torn."""
    wanted = f'"name":"{name}"'
    lines = [line for line in program.output.splitlines(keepends=True) if wanted in line]
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def stop(program: Program) -> None:
    """It must end as one that was asked to, with nothing left undone."""
    program.stop()
    assert events(program, "shutdown_complete"), program.output[-2000:]


def ends_and_commits(node: BrokerProcess) -> tuple[list[int], list[int]]:
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    with consumer(node.bootstrap_servers, group_id=GROUP) as reader:
        ends = [watermarks(reader, one)[1] for one in partitions]
        return ends, [one.offset for one in reader.committed(partitions, timeout=20)]


@pytest.mark.parametrize(
    "protocols",
    [("classic",) * 3, ("consumer",) * 3, ("classic", "consumer", "classic")],
    ids=["classic", "consumer", "both"],
)
def test_every_acknowledged_record_is_read(
    java: Java, node: BrokerProcess, protocols: tuple[str, ...]
) -> None:
    create_topic(node.bootstrap_servers, TOPIC, PARTITIONS)
    producer = java.run(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--bootstrap-server", node.bootstrap_servers, "--topic", TOPIC, "--acks", "-1"),
        *("--throughput", str(RECORDS_PER_SECOND), "--repeating-keys", "100"),
    )
    churn = Churn(java, node, protocols)
    churn.wait_for_progress()
    pauses = itertools.cycle((1.0, 0.2, 2.0))
    for what, pause_seconds in zip(CHURN, pauses, strict=False):
        churn.do(what)
        threading.Event().wait(pause_seconds)
    churn.wait_for_progress()
    stop(producer)
    sent = {
        (event["partition"], event["offset"]) for event in events(producer, "producer_send_success")
    }
    assert len({partition for partition, _ in sent}) == PARTITIONS
    assert wait_until(lambda: churn.read() >= sent, PATIENCE_SECONDS), sorted(sent - churn.read())[
        :20
    ]

    def is_committed() -> bool:
        ends, commits = ends_and_commits(node)
        return ends == commits

    assert wait_until(is_committed, PATIENCE_SECONDS), ends_and_commits(node)
    for program in churn.running:
        stop(program)
    ends, commits = ends_and_commits(node)
    assert ends == commits
    assert sum(ends) >= len(sent)
    node.check_health()
