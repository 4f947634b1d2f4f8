"""Consumer groups of kafka-python and aiokafka."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener as AioListener

from tests.clients.groups import Audit, Feed, LibrdkafkaMember, wait_for
from tests.clients.librdkafka import create_topic

with warnings.catch_warnings():
    # It reads its schemas by a function that newer Pythons advise against.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer

PARTITIONS = 6


class KafkaPythonMember:
    """A member in a thread of its own."""

    def __init__(self, audit: Audit, bootstrap: str, topic: str, name: str) -> None:
        self.audit = audit
        self.name = name
        self._is_over = threading.Event()
        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10_000,
            # Looks for topics again soon: it may have joined before it knew of this one.
            metadata_max_age_ms=1_000,
            heartbeat_interval_ms=300,
            max_poll_interval_ms=30_000,
        )
        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Any) -> None:
                audit.assigned(member.name, [one.partition for one in assigned])

            def on_partitions_revoked(self, revoked: Any) -> None:
                audit.revoked(member.name, [one.partition for one in revoked])

        self._consumer.subscribe([topic], listener=Listener())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            for records in self._consumer.poll(timeout_ms=50).values():
                for record in records:
                    self.audit.note(record.value)
                self._consumer.commit_async()

    def leave(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()
        self.audit.gone(self.name)


def test_kafka_python(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    audit = Audit()
    feed = Feed(bootstrap, topic)
    first = KafkaPythonMember(audit, bootstrap, topic, "m0")
    wait_for(lambda: audit.is_balanced(["m0"], PARTITIONS))
    others = [KafkaPythonMember(audit, bootstrap, topic, f"m{number}") for number in (1, 2, 3)]
    wait_for(lambda: audit.is_balanced(["m0", "m1", "m2", "m3"], PARTITIONS))
    for member in others[:2]:
        member.leave()
    wait_for(lambda: audit.is_balanced(["m0", "m3"], PARTITIONS))
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    first.leave()
    others[2].leave()
    assert audit.breaches == []


class AiokafkaMember:
    """A member in a task of its own."""

    def __init__(self, audit: Audit, bootstrap: str, topic: str, name: str) -> None:
        self.audit = audit
        self.name = name
        self.topic = topic
        self.consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
        )
        self._reading: asyncio.Task[None] | None = None

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        member = self

        class Listener(AioListener):  # type: ignore[misc]
            async def on_partitions_assigned(self, assigned: Any) -> None:
                member.audit.assigned(member.name, [one.partition for one in assigned])

            async def on_partitions_revoked(self, revoked: Any) -> None:
                member.audit.revoked(member.name, [one.partition for one in revoked])

        self.consumer.subscribe([self.topic], listener=Listener())
        await self.consumer.start()
        self._reading = tasks.create_task(self._run())

    async def _run(self) -> None:
        while True:
            found = await self.consumer.getmany(timeout_ms=50)
            for records in found.values():
                for record in records:
                    self.audit.note(record.value)
            if found:
                await self.consumer.commit()

    async def leave(self) -> None:
        assert self._reading is not None
        self._reading.cancel()
        await asyncio.wait([self._reading])
        await self.consumer.stop()
        self.audit.gone(self.name)

    async def die(self) -> None:
        """Its connections are gone, and nobody said goodbye."""
        assert self._reading is not None
        self._reading.cancel()
        await asyncio.wait([self._reading])
        coordinator = self.consumer._coordinator
        coordinator._maybe_leave_group = _nothing
        await self.consumer.stop()


async def _nothing() -> None:
    pass


async def until(what: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_for, what)


@pytest.mark.parametrize("how", ["leave", "die"])
def test_aiokafka(bootstrap: str, topic: str, how: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    audit = Audit()
    feed = Feed(bootstrap, topic)

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            members = [AiokafkaMember(audit, bootstrap, topic, f"m{n}") for n in range(4)]
            await members[0].start(tasks)
            await until(lambda: audit.is_balanced(["m0"], PARTITIONS))
            for member in members[1:]:
                await member.start(tasks)
            names = [member.name for member in members]
            await until(lambda: audit.is_balanced(names, PARTITIONS))
            await getattr(members[1], how)()
            if how == "die":
                audit.gone("m1")
            await until(lambda: audit.is_balanced(["m0", "m2", "m3"], PARTITIONS))
            sent = await asyncio.to_thread(feed.stop)
            await until(lambda: set(audit.read) >= sent)
            for member in (members[0], *members[2:]):
                await member.leave()

    asyncio.run(main())
    assert audit.breaches == []


def test_members_of_different_libraries(bootstrap: str, topic: str) -> None:
    """All of them know the range assignor, and whoever leads assigns for all."""
    create_topic(bootstrap, topic, PARTITIONS)
    audit = Audit()
    feed = Feed(bootstrap, topic)
    one = LibrdkafkaMember(audit, bootstrap, topic, "librdkafka", group_id=topic)
    wait_for(lambda: audit.is_balanced(["librdkafka"], PARTITIONS))
    two = KafkaPythonMember(audit, bootstrap, topic, "kafka-python")
    wait_for(lambda: audit.is_balanced(["librdkafka", "kafka-python"], PARTITIONS))
    one.leave()
    wait_for(lambda: audit.is_balanced(["kafka-python"], PARTITIONS))
    three = LibrdkafkaMember(audit, bootstrap, topic, "another", group_id=topic)
    wait_for(lambda: audit.is_balanced(["another", "kafka-python"], PARTITIONS))
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    two.leave()
    three.leave()
    assert audit.breaches == []
