"""Consumer groups of real clients, and what must be true of them.

`Audit` hears from every member what it owns and what it reads, and notes a breach at once: two
owners of a partition at a time. At the end every record must have been read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from tests.clients.librdkafka import dotted
from tests.oracle.environment import wait_until
from tests.support.pace import PATIENCE_SECONDS


class Audit:
    """Called by members in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.owners: dict[int, str] = {}
        self.read: dict[bytes, int] = {}
        self.breaches: list[str] = []
        self.assignments = 0

    def assigned(self, member: str, partitions: Iterable[int]) -> None:
        with self._lock:
            self.assignments += 1
            for partition in partitions:
                owner = self.owners.get(partition)
                if owner not in {None, member}:
                    self.breaches.append(f"{partition} belongs to {owner} and to {member}")
                self.owners[partition] = member

    def revoked(self, member: str, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                if self.owners.get(partition) == member:
                    del self.owners[partition]

    def gone(self, member: str) -> None:
        """The member left or died: it owns nothing any more."""
        with self._lock:
            for partition in [one for one, owner in self.owners.items() if owner == member]:
                del self.owners[partition]

    def note(self, value: bytes) -> None:
        with self._lock:
            self.read[value] = self.read.get(value, 0) + 1

    def share(self) -> dict[str, int]:
        """How many partitions each member owns."""
        with self._lock:
            found: dict[str, int] = {}
            for owner in self.owners.values():
                found[owner] = found.get(owner, 0) + 1
            return found

    def is_balanced(self, members: Iterable[str], partitions: int) -> bool:
        share = self.share()
        return sum(share.values()) == partitions and set(share) == set(members)


def wait_for(what: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    assert wait_until(what, seconds), "it did not come to that"


class Feed:
    """A producer that goes on until it is asked to stop; every record has a value of its own."""

    def __init__(self, bootstrap: str, topic: str, pause_seconds: float = 0.002) -> None:
        self.sent: list[bytes] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic = topic
        self._pause_seconds = pause_seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over.wait(self._pause_seconds):
            value = b"%d" % number
            self._producer.produce(self._topic, value=value, key=value)
            self._producer.poll(0)
            self.sent.append(value)
            number += 1

    def stop(self) -> set[bytes]:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        return set(self.sent)


# There was nothing to commit, or the group went on without this member, whose records others read
# again then.
_COMMITS_IN_VAIN = {
    KafkaError._NO_OFFSET,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.STALE_MEMBER_EPOCH,
}


class LibrdkafkaMember:
    """A member in a thread of its own, which commits what it has read."""

    def __init__(
        self, audit: Audit, bootstrap: str, topic: str, name: str, **settings: Any
    ) -> None:
        self.audit = audit
        self.name = name
        self.errors: list[str] = []
        self._is_over = threading.Event()
        self._pause_seconds = 0.0
        self._is_awake = threading.Event()
        self._max_poll_interval_seconds = settings.get("max_poll_interval_ms", 300_000) / 1000
        uses_consumer_protocol = settings.get("group_protocol") == "consumer"
        strategy = settings.get("partition_assignment_strategy", "range")
        self._is_cooperative = uses_consumer_protocol or "cooperative" in strategy
        # The consumer protocol has these times from the coordinator.
        times = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300}
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **({} if uses_consumer_protocol else times),
                **dotted(settings),
            }
        )
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        self.audit.assigned(self.name, [one.partition for one in partitions])
        if self._is_cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        self.audit.revoked(self.name, [one.partition for one in partitions])
        if self._is_cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def _run(self) -> None:
        while not self._is_over.is_set():
            message = self._consumer.poll(0.05)
            self._sleep()
            if message is None:
                continue
            if message.error():
                self.errors.append(str(message.error()))
                continue
            self.audit.note(message.value())
            self._consumer.commit(message, asynchronous=True)

    def _sleep(self) -> None:
        pause_seconds, self._pause_seconds = self._pause_seconds, 0.0
        if pause_seconds > self._max_poll_interval_seconds:
            # It is going to leave the group by itself, and says so only when it polls again.
            self.audit.gone(self.name)
        self._is_awake.wait(pause_seconds)

    def leave(self) -> None:
        self._is_over.set()
        self._is_awake.set()
        self._thread.join()
        if self._consumer.assignment():
            # Commits on their way are not waited for by close.
            self._commit_all()
        self._consumer.close()
        self.audit.gone(self.name)

    def pause(self, seconds: float) -> None:
        """Does not poll for a while."""
        self._is_awake.clear()
        self._pause_seconds = seconds

    def wake(self) -> None:
        """Ends its pause."""
        self._is_awake.set()

    def _commit_all(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _COMMITS_IN_VAIN:
                raise
