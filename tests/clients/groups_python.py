"""Members of kafka-python and aiokafka, which tell an audit what they own and read."""

from __future__ import annotations

import asyncio
import threading
import warnings
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener as AioListener

from tests.clients.groups import Audit

with warnings.catch_warnings():
    # It reads its schemas by a function that newer Pythons advise against.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer


class KafkaPythonMember:
    """A member in a thread of its own."""

    def __init__(self, audit: Audit, bootstrap: str, topic: str, name: str) -> None:
        self.audit = audit
        self.name = name
        self._is_over = threading.Event()
        self._pause_seconds = 0.0
        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10_000,
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
        # It may lead its group before it has the metadata of the topic, assign nothing, and never
        # notice; with Apache Kafka too, 12 times of 40 without an initial rebalance delay.
        assert self._consumer.partitions_for_topic(topic)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            for records in self._consumer.poll(timeout_ms=50).values():
                for record in records:
                    self.audit.note(record.value)
                self._consumer.commit_async()
            pause_seconds, self._pause_seconds = self._pause_seconds, 0.0
            self._is_over.wait(pause_seconds)

    def leave(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()
        self.audit.gone(self.name)

    def pause(self, seconds: float) -> None:
        """Does not poll for a while."""
        self._pause_seconds = seconds

    def crash(self) -> None:
        """Is gone, and says no goodbye."""
        self._is_over.set()
        self._thread.join()
        self._consumer._coordinator.maybe_leave_group = lambda *_, **__: None
        self._consumer.close(autocommit=False)
        self.audit.gone(self.name)


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
        # Does not poll for so long, once.
        self.pause_seconds = 0.0

    async def start(self) -> None:
        member = self

        class Listener(AioListener):  # type: ignore[misc]
            async def on_partitions_assigned(self, assigned: Any) -> None:
                member.audit.assigned(member.name, [one.partition for one in assigned])

            async def on_partitions_revoked(self, revoked: Any) -> None:
                member.audit.revoked(member.name, [one.partition for one in revoked])

        self.consumer.subscribe([self.topic], listener=Listener())
        await self.consumer.start()
        self._reading = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            found = await self.consumer.getmany(timeout_ms=50)
            for records in found.values():
                for record in records:
                    self.audit.note(record.value)
            if found:
                await self.consumer.commit()
            pause_seconds, self.pause_seconds = self.pause_seconds, 0.0
            await asyncio.sleep(pause_seconds)

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
