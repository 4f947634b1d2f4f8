"""What clients of librdkafka do to a cluster under faults, and what they know of it.

| Client | What it does |
|---|---|
| transactor | transactions of sends and polls (`tests/histories/workload.py`), in their topic |
| sender | idempotent sends to single partitions, several under way |
| member | reads what senders wrote as a member of a group and commits; one group of each protocol |

Senders and members write one history, to which the checks of `tests/histories` apply. Members add
what a group promises: whatever was acknowledged is read by each group, and what was committed does
not go back.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from tests.clients.librdkafka import create_topic
from tests.histories.checks import check
from tests.histories.model import Anomaly, Operation, Outcome, Poll, Send
from tests.histories.workload import PARTITIONS, Workload, client_settings, read_all

if TYPE_CHECKING:
    from collections.abc import Iterator

TRANSACTIONS = "history"
APPENDS = "appends"
PROTOCOLS = ("classic", "consumer")
MEMBERS_EACH = 2
SENDERS = 2
# Longer than the faults of a round and the start of every node after it.
SETTLE_SECONDS_MAX = 240
_PAUSE_SECONDS = 0.02


class ChaosWorkload:
    """All clients; `begin`, and `finish` when everything is healed."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.bootstrap = bootstrap
        self.transactions = Workload(
            bootstrap,
            TRANSACTIONS,
            seed=seed,
            replicas=3,
            clients=3,
            settle_seconds_max=SETTLE_SECONDS_MAX,
        )
        create_topic(bootstrap, APPENDS, PARTITIONS, replicas=3)
        self.is_over = threading.Event()
        self.operations: list[Operation] = []
        # When, and of which partition, something was acknowledged.
        self.acknowledged: list[tuple[float, int]] = []
        self.values = itertools.count(1)
        self.counts: Counter[str] = Counter()
        self.members = [
            Member(self, protocol, number)
            for protocol in PROTOCOLS
            for number in range(MEMBERS_EACH)
        ]
        self._senders = [Sender(self, number, Random(seed + number)) for number in range(SENDERS)]
        runs = [*(one.run for one in self._senders), *(one.run for one in self.members)]
        self._threads = [threading.Thread(target=run, daemon=True) for run in runs]
        self._transacting = threading.Thread(target=self._transact, daemon=True)

    def begin(self) -> None:
        for thread in (*self._threads, self._transacting):
            thread.start()

    def _transact(self) -> None:
        self.transactions.run_until(self.is_over.is_set, lambda: self.is_over.wait(0.2))

    def operation_count(self) -> int:
        return len(self.operations) + len(self.transactions.operations)

    def finish(self) -> list[Anomaly]:
        """Ends the load and reads everything; gives all that may not be."""
        self.is_over.set()
        self._transacting.join(2 * SETTLE_SECONDS_MAX)
        if self._transacting.is_alive() or self.transactions.operations[-1].client >= 0:
            return [Anomaly("liveness", "clients of transactions did not come to an end")]
        for thread in self._threads[: len(self._senders)]:
            thread.join()
        self.operations.append(read_all(self.bootstrap, APPENDS))
        found = list(self._groups())
        for thread in self._threads:
            thread.join()
        return [*check(self.transactions.operations), *check(self.operations), *found]

    def _groups(self) -> Iterator[Anomaly]:
        """Waits until the groups have read everything; tells what they did not."""
        wanted = {
            send.value
            for operation in self.operations
            if operation.outcome is Outcome.OK
            for send in operation.sends()
        }
        ends = time.monotonic() + SETTLE_SECONDS_MAX
        for protocol in PROTOCOLS:
            group = [member for member in self.members if member.protocol == protocol]

            def missing(group: list[Member] = group) -> set[int]:
                return wanted.difference(*(member.values for member in group))

            while missing() and time.monotonic() < ends:
                threading.Event().wait(0.2)
            for value in sorted(missing())[:5]:
                yield Anomaly("unread", f"{value} was not read by the {protocol} group")
        for member in self.members:
            member.is_over = True
        for member in self.members:
            member.ended.wait(SETTLE_SECONDS_MAX)
        yield from self._commits()

    def _commits(self) -> Iterator[Anomaly]:
        """What each group has committed at the end, beside what it was promised before."""
        for protocol in PROTOCOLS:
            promised: dict[int, int] = defaultdict(int)
            for member in self.members:
                if member.protocol == protocol:
                    for partition, offset in member.committed.items():
                        promised[partition] = max(promised[partition], offset)
            for partition, offset in self._committed(protocol, promised).items():
                if offset < promised[partition]:
                    where = f"the {protocol} group, partition {partition}"
                    told = f"{promised[partition]} was committed, {offset} is left"
                    yield Anomaly("lost-commit", f"{where}: {told}")

    def _committed(self, protocol: str, partitions: dict[int, int]) -> dict[int, int]:
        settings = {**client_settings(self.bootstrap), "group.id": f"group-{protocol}"}
        consumer: Any = Consumer(settings)
        found = consumer.committed([Place(APPENDS, number) for number in sorted(partitions)], 60)
        consumer.close()
        return {place.partition: place.offset for place in found}


class Sender:
    """Sends with idempotence; at most a few hundred are under way."""

    def __init__(self, workload: ChaosWorkload, number: int, random: Random) -> None:
        self._workload = workload
        self._number = number
        self._random = random
        self._open = 0

    def run(self) -> None:
        workload = self._workload
        settings = {
            **client_settings(workload.bootstrap),
            "enable.idempotence": True,
            "linger.ms": 1,
            "message.timeout.ms": SETTLE_SECONDS_MAX * 1000,
        }
        producer: Any = Producer(settings)
        while not workload.is_over.is_set():
            if self._open < 300:
                for _ in range(self._random.randint(1, 3)):
                    self._send(producer)
            producer.poll(_PAUSE_SECONDS)
        producer.flush(SETTLE_SECONDS_MAX)

    def _send(self, producer: Any) -> None:
        send = Send(self._random.randrange(PARTITIONS), next(self._workload.values))
        workload = self._workload

        def delivered(error: Any, message: Any) -> None:
            self._open -= 1
            if error is None:
                known = Send(send.partition, send.value, message.offset())
                workload.operations.append(Operation(self._number, Outcome.OK, (known,)))
                workload.acknowledged.append((time.monotonic(), send.partition))
            else:
                workload.counts[f"send {error.name()}"] += 1
                workload.operations.append(Operation(self._number, Outcome.UNKNOWN, (send,)))

        self._open += 1
        try:
            value = b"%d" % send.value
            producer.produce(APPENDS, value, partition=send.partition, on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            self._open -= 1
            workload.counts[f"send {type(error).__name__}"] += 1


class Member:
    """Reads and commits until it hears that it is over, after everything was read."""

    def __init__(self, workload: ChaosWorkload, protocol: str, number: int) -> None:
        self._workload = workload
        self.protocol = protocol
        self._number = 100 + 10 * PROTOCOLS.index(protocol) + number
        self.values: set[int] = set()
        self.committed: dict[int, int] = {}
        self.is_over = False
        self.ended = threading.Event()
        self._rebalance_count = 0

    def run(self) -> None:
        settings = {
            **client_settings(self._workload.bootstrap),
            "group.id": f"group-{self.protocol}",
            "group.protocol": self.protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        if self.protocol == "classic":
            settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}
        consumer: Any = Consumer(settings)
        consumer.subscribe([APPENDS], on_assign=self._rebalanced, on_revoke=self._rebalanced)
        try:
            while not self.is_over:
                self._turn(consumer)
        finally:
            consumer.close()
            self.ended.set()

    def _rebalanced(self, _consumer: object, _places: object) -> None:
        self._rebalance_count += 1
        self._workload.counts["rebalances"] += 1

    def _turn(self, consumer: Any) -> None:
        before = self._rebalance_count
        records: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for message in consumer.consume(200, 0.5):
            if message.error() is None:
                found = (message.offset(), int(message.value()))
                records[message.partition()].append(found)
        if not records:
            return
        polls = [Poll(number, tuple(found)) for number, found in records.items()]
        if self._rebalance_count > before:
            # Positions may have moved in the midst of it.
            polls = [Poll(one.partition, (record,)) for one in polls for record in one.records]
        for poll in polls:
            one = Operation(self._number, Outcome.OK, (poll,), position_kept=False)
            self._workload.operations.append(one)
        self.values.update(value for found in records.values() for _, value in found)
        try:
            for place in consumer.commit(asynchronous=False) or ():
                if place.error is None and place.offset >= 0:
                    self.committed[place.partition] = place.offset
            self._workload.counts["commits"] += 1
        except KafkaException as error:
            self._workload.counts[f"commit {error.args[0].name()}"] += 1
