"""The producer: hands records to the accumulator, whose batches the sender takes to brokers.

::

    async with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        delivery = await producer.send("orders", b"value", key=b"key")
        print((await delivery).offset)

``send`` returns as soon as the record is in a batch; awaiting what it returns waits for the broker.
With a ``transactional.id``, records and the offsets of a consumer are written together or not at
all::

    await producer.init_transactions()
    async with producer.transaction():
        await producer.send("invoices", b"...")
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Self

from kaa.client.accumulator import record_bytes_max
from kaa.client.cluster import Cluster
from kaa.client.delivery import Delivery, RecordMetadata
from kaa.client.errors import BufferExhaustedError, ClientError, ClosedError, KafkaError
from kaa.client.metadata import TopicPartition
from kaa.client.partitioner import Partitioner
from kaa.client.sender import Sender
from kaa.client.transaction_machine import TransactionMachine, TransactionState
from kaa.config.client import producer_values
from kaa.records.batch import HEADER_BYTES
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from random import Random

    from kaa.client.group.membership import GroupMetadata
    from kaa.client.group_offsets import OffsetAndMetadata
    from kaa.client.metadata import Topic
    from kaa.client.transactions import Transactions
    from kaa.records.batch import Buffer
    from kaa.records.record import Header

__all__ = ["Delivery", "Producer", "RecordMetadata"]


class Producer:
    """See the module's text. Settings have the names and defaults of Java's producer."""

    def __init__(self, settings: Mapping[str, str], *, random: Random | None = None) -> None:
        self.values = producer_values(settings)
        self.cluster = Cluster(self.values, random)
        transactional_id = self.values.get_optional_string("transactional.id")
        self._machine = None if transactional_id is None else TransactionMachine(transactional_id)
        self._sender = Sender(self.values, self.cluster, self._machine)
        self._accumulator = self._sender.accumulator
        self._transactions: Transactions | None = None
        if self._machine is not None:
            from kaa.client.transactions import Transactions

            self._transactions = Transactions(
                self.values, self.cluster, self._sender, self._machine
            )
        self._partitioner = Partitioner(
            self.values.get_int("batch.size"),
            self.cluster.random,
            ignores_keys=self.values.get_boolean("partitioner.ignore.keys"),
        )
        self._request_bytes_max = self.values.get_int("max.request.size")
        self._max_block_ms = self.values.get_int("max.block.ms")
        self._partitions: dict[tuple[str, int], TopicPartition] = {}
        self._stack = AsyncExitStack()
        self._is_running = False

    @property
    def is_transactional(self) -> bool:
        return self._machine is not None

    # --- life

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.cluster)
        self._sender.start(await self._stack.enter_async_context(asyncio.TaskGroup()))
        self._is_running = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Sends what waits, unless an exception ends the block; an open transaction is aborted."""
        try:
            await self._abort_open_transaction()
            if kind is None:
                await self.flush()
        finally:
            self._is_running = False
            self._sender.stop()
            await self._stack.aclose()
            # Connections that ended hand back what was under way in the next round of the loop.
            await asyncio.sleep(0)
            self._sender.fail_rest()

    async def _abort_open_transaction(self) -> None:
        """Nobody will commit it, and until it ends readers of committed records wait."""
        if self._machine is not None and self._machine.state in {
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTABLE,
        }:
            try:
                await self.abort_transaction()
            except ClientError:
                # The coordinator aborts it after transaction.timeout.ms.
                return

    # --- sending

    async def send(
        self,
        topic: str,
        value: Buffer | None,
        *,
        key: Buffer | None = None,
        partition: int | None = None,
        headers: Sequence[Header] = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Puts a record into a batch; waits only for metadata and for memory."""
        known = self.cluster.metadata.topics.get(topic)
        if known is None:
            known = await self.cluster.topic(topic, self._max_block_ms, create=True)
        if self._sender.is_full:
            await self._sender.wait_for_memory()
        return self._append(known, value, key, partition, headers, timestamp_ms)

    def send_nowait(
        self,
        topic: str,
        value: Buffer | None,
        *,
        key: Buffer | None = None,
        partition: int | None = None,
        headers: Sequence[Header] = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """As ``send`` for a topic that is known; raises BufferExhaustedError when memory is full.

        A topic is known after a first ``send`` to it, or after ``partitions_for``.
        """
        known = self.cluster.metadata.topics.get(topic)
        if known is None:
            raise ClientError(f"topic {topic!r} is not known yet; await send() or partitions_for()")
        if self._sender.is_full:
            raise BufferExhaustedError("buffer.memory is full; await send() or raise it")
        return self._append(known, value, key, partition, headers, timestamp_ms)

    async def partitions_for(self, topic: str) -> Topic:
        """The partitions of a topic; it is created where the cluster allows that."""
        return await self.cluster.topic(topic, self._max_block_ms, create=True)

    def _append(
        self,
        topic: Topic,
        value: Buffer | None,
        key: Buffer | None,
        partition: int | None,
        headers: Sequence[Header],
        timestamp_ms: int | None,
    ) -> Delivery:
        if not self._is_running:
            raise ClosedError("the producer is not running; use it inside 'async with'")
        size = record_bytes_max(key, value, headers)
        if size + HEADER_BYTES > self._request_bytes_max:
            raise KafkaError(
                Errors.MESSAGE_TOO_LARGE,
                f"record of {size} bytes",
                message=f"max.request.size is {self._request_bytes_max}",
            )
        if partition is None:
            partition = self._partitioner.choose(topic, key, size)
        elif not 0 <= partition < len(topic.partitions):
            raise KafkaError(
                Errors.UNKNOWN_TOPIC_OR_PARTITION,
                f"partition {topic.name}-{partition}",
                message=f"the topic has partitions 0 to {len(topic.partitions) - 1}",
            )
        target = self._partitions.get((topic.name, partition))
        if target is None:
            target = TopicPartition(topic.name, partition)
            self._partitions[target] = target
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        elif timestamp_ms < 0:
            raise ValueError(f"timestamp {timestamp_ms} is negative")
        if self._machine is not None:
            self._machine.check_open("cannot send a record")
            if self._machine.wants(target):
                self._sender.wake_sender(target)
        now_ms = time.monotonic() * 1000
        batch, wakes = self._accumulator.append(
            target, timestamp_ms, key, value, headers, size, now_ms
        )
        if batch.delivery is None:
            batch.delivery = asyncio.get_running_loop().create_future()
        if wakes:
            self._sender.wake_sender(target)
        return Delivery(target, batch.delivery, batch.record_count - 1, timestamp_ms)

    async def flush(self) -> None:
        """Waits until every record that was handed over is delivered or given up."""
        await self._sender.flush()

    # --- transactions

    def _transactional(self) -> Transactions:
        if not self._is_running:
            raise ClosedError("the producer is not running; use it inside 'async with'")
        if self._transactions is None:
            raise ClientError("transactions need a transactional.id in the settings")
        return self._transactions

    async def init_transactions(self) -> None:
        """Takes over the transactional id: who had it is fenced, what it left open is aborted."""
        await self._transactional().init()

    def begin_transaction(self) -> None:
        self._transactional().begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata
    ) -> None:
        """Commits offsets of a consumer if and when the transaction is committed."""
        from kaa.client.group_offsets import OffsetAndMetadata

        await self._transactional().send_offsets(
            {
                TopicPartition(*partition): OffsetAndMetadata(given)
                if isinstance(given, int)
                else given
                for partition, given in offsets.items()
            },
            group,
        )

    async def commit_transaction(self) -> None:
        """Sends what waits and commits; raises what makes an abort necessary."""
        await self._transactional().commit()

    async def abort_transaction(self) -> None:
        """Gives up what waits and aborts, also after an error."""
        await self._transactional().abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begins; commits at the end of the block, or aborts if an exception ends it."""
        self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            await self._abort_open_transaction()
            raise
