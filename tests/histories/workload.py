"""Clients at random work on a few partitions, while somebody may kill their node.

Each client is a thread with a transactional producer of librdkafka and a consumer of committed
records that assigns itself every partition. It polls, and runs transactions of sends and polls,
most of which it commits. Whatever it did goes into the history with what it knows of the outcome:
a transaction whose commit or abort was answered is certain, any other is not.

At the end, when the node is well again, every client settles its last transaction by taking its
transactional id once more, and one more client reads everything.
"""

from __future__ import annotations

import itertools
import threading
import time
from random import Random
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from tests.clients.librdkafka import create_topic
from tests.histories.model import Operation, Outcome, Poll, Send
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 4
SETTLE_SECONDS_MAX = PATIENCE_SECONDS
COMMITTED_SHARE = 0.75
_READER = -1


class Workload:
    """The clients and what they did."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        seed: int,
        clients: int = 4,
        replicas: int = 1,
        settle_seconds_max: float = SETTLE_SECONDS_MAX,
    ) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.settle_seconds_max = settle_seconds_max
        self.operations: list[Operation] = []
        self.values = itertools.count(1)
        self.is_over = threading.Event()
        self._clients = [Client(self, number, Random(seed + number)) for number in range(clients)]
        create_topic(bootstrap, topic, PARTITIONS, replicas=replicas)

    def run(self, seconds: float, disturb: Callable[[], None] | None = None) -> list[Operation]:
        """Lets the clients work while `disturb` is called over and over; gives the history."""
        ends = time.monotonic() + seconds
        return self.run_until(
            lambda: time.monotonic() >= ends, disturb or (lambda: self.is_over.wait(0.1))
        )

    def run_until(
        self, is_enough: Callable[[], bool], disturb: Callable[[], object]
    ) -> list[Operation]:
        """Like `run`, until something has happened."""
        threads = [threading.Thread(target=client.run) for client in self._clients]
        for thread in threads:
            thread.start()
        try:
            while not is_enough():
                disturb()
        finally:
            self.is_over.set()
            for thread in threads:
                thread.join()
        self.operations.append(read_all(self.bootstrap, self.topic))
        return self.operations


class Client:
    """One thread; see the text of the module."""

    def __init__(self, workload: Workload, number: int, random: Random) -> None:
        self._workload = workload
        self._number = number
        self._random = random
        self._producer: Any = None
        self._consumer: Any = None
        self._position_kept = False

    def run(self) -> None:
        try:
            while not self._workload.is_over.is_set():
                self._ensure()
                if self._random.random() < 0.3:
                    self._note(Outcome.OK, (self._poll(),), is_transaction=False)
                else:
                    self._transact()
            # An open transaction would keep everybody from reading on.
            self._producer = None
            self._ensure()
        finally:
            if self._consumer is not None:
                self._consumer.close()

    def _ensure(self) -> None:
        """Has a producer whose earlier transactions are all settled, and a consumer."""
        ends = time.monotonic() + self._workload.settle_seconds_max
        while self._producer is None:
            made = Producer(
                {
                    **client_settings(self._workload.bootstrap),
                    "transactional.id": f"{self._workload.topic}-{self._number}",
                    "linger.ms": 1,
                    "transaction.timeout.ms": 30_000,
                }
            )
            try:
                made.init_transactions(10)
            except KafkaException:
                if time.monotonic() > ends:
                    raise
            else:
                self._producer = made
        if self._consumer is None:
            self._consumer = _consumer(self._workload.bootstrap)
            self._consumer.assign(_beginnings(self._workload.topic))
            self._position_kept = False

    def _transact(self) -> None:
        steps: list[Send | Poll] = []
        sent: list[tuple[int, Send, list[Any]]] = []
        self._producer.begin_transaction()
        is_sent = True
        for _ in range(self._random.randint(1, 6)):
            if self._random.random() < 0.25:
                steps.append(self._poll())
                continue
            send = Send(self._random.randrange(PARTITIONS), next(self._workload.values))
            acknowledged: list[Any] = []
            sent.append((len(steps), send, acknowledged))
            steps.append(send)
            is_sent = is_sent and self._send(send, acknowledged)
        wants_commit = is_sent and self._random.random() < COMMITTED_SHARE
        outcome = self._end(wants_commit=wants_commit)
        for index, send, acknowledged in sent:
            if acknowledged:
                steps[index] = Send(send.partition, send.value, acknowledged[0])
        self._note(outcome, tuple(steps), is_transaction=True)

    def _send(self, send: Send, acknowledged: list[Any]) -> bool:
        def delivered(error: Any, message: Any) -> None:
            if error is None:
                acknowledged.append(message.offset())

        try:
            self._producer.produce(
                self._workload.topic,
                value=b"%d" % send.value,
                partition=send.partition,
                on_delivery=delivered,
            )
        except KafkaException:
            return False
        self._producer.poll(0)
        return True

    def _end(self, *, wants_commit: bool) -> Outcome:
        """Commits or aborts; a producer that cannot go on is given up."""
        is_committing = wants_commit
        ends = time.monotonic() + self._workload.settle_seconds_max
        while time.monotonic() < ends:
            try:
                if is_committing:
                    self._producer.commit_transaction(5)
                else:
                    self._producer.abort_transaction(5)
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if cause.txn_requires_abort():
                    is_committing = False
                elif not cause.retriable():
                    break
            else:
                return Outcome.OK if is_committing else Outcome.FAILED
        self._producer = None
        return Outcome.UNKNOWN

    def _poll(self) -> Poll:
        """At most a few records, all of one partition."""
        records: list[tuple[int, int]] = []
        partition = 0
        message = self._consumer.poll(0.1)
        if message is not None and message.error() is None:
            partition = message.partition()
            records.append((message.offset(), int(message.value())))
        return Poll(partition, tuple(records))

    def _note(
        self, outcome: Outcome, steps: tuple[Send | Poll, ...], *, is_transaction: bool
    ) -> None:
        self._workload.operations.append(
            Operation(self._number, outcome, steps, is_transaction, self._position_kept)
        )
        self._position_kept = True


def read_all(bootstrap: str, topic: str) -> Operation:
    """Reads every partition from its beginning to where committed records end."""
    records: dict[int, list[tuple[int, int]]] = {number: [] for number in range(PARTITIONS)}
    consumer = _consumer(bootstrap)
    consumer.assign(_beginnings(topic))
    unfinished = set(records)
    ends = time.monotonic() + SETTLE_SECONDS_MAX
    while unfinished:
        assert time.monotonic() < ends, f"the end of {sorted(unfinished)} was not reached"
        for message in consumer.consume(500, 1):
            error = message.error()
            if error is None:
                records[message.partition()].append((message.offset(), int(message.value())))
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
    consumer.close()
    polls = tuple(Poll(number, tuple(found)) for number, found in records.items())
    return Operation(_READER, Outcome.OK, polls, position_kept=False)


def client_settings(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 20,
        "log_level": 0,
    }


def _consumer(bootstrap: str) -> Any:
    return Consumer(
        {
            **client_settings(bootstrap),
            "group.id": "not used",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )


def _beginnings(topic: str) -> list[Any]:
    return [Place(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
