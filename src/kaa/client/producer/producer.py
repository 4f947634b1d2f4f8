"""The producer: hands records to the accumulator, whose batches the sender takes to brokers.

    async with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        delivery = await producer.send("orders", b"value", key=b"key")
        print((await delivery).offset)

`send` returns as soon as the record is in a batch; awaiting what it returns waits for the broker.
With a `transactional.id`, records and the offsets of a consumer are written together or not at
all:

    await producer.init_transactions()
    async with producer.transaction():
        await producer.send("invoices", b"...")
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Never

from kaa.client.arguments import INT32_MAX, INT64_MAX, refuse_others, whole_number
from kaa.client.cluster import Cluster
from kaa.client.errors import PARTITION_HINT, BufferExhaustedError, ClientError, KafkaError
from kaa.client.life import ClientLife
from kaa.client.producer.accumulator import record_bytes_max
from kaa.client.producer.delivery import Delivery, RecordMetadata
from kaa.client.producer.partitioner import Partitioner
from kaa.client.producer.sender import Sender
from kaa.client.producer.transaction_machine import TransactionMachine, TransactionStage
from kaa.client.serialization import serde_of, to_bytes, to_headers
from kaa.client.settings import client_values
from kaa.config.client import PRODUCER, producer_values
from kaa.limits import CLIENT_CLOSE_MS_MAX
from kaa.model.topics import TopicPartition
from kaa.model.words import partitions_text
from kaa.records.batch import HEADER_BYTES
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from random import Random

    from kaa.client.group.membership import GroupMetadata
    from kaa.client.group.offsets import OffsetAndMetadata
    from kaa.client.metadata import Topic
    from kaa.client.producer.transactions import Transactions
    from kaa.client.serialization import Headers
    from kaa.model.seams import Clock
    from kaa.records.batch import Buffer
    from kaa.records.record import Header

    # Value, key and headers.
    Encoded = tuple[Buffer | None, Buffer | None, Sequence[Header]]

__all__ = ["Delivery", "Producer", "RecordMetadata"]

_log = logging.getLogger(__name__)


class Producer(ClientLife):
    """Sends records to topics, in batches, in order and without duplicates.

    Settings have the names and defaults of Java's producer, as a dictionary
    (`{"bootstrap.servers": "localhost:9092"}`) or by name (`bootstrap_servers="localhost:9092"`).
    Use it inside `async with`, or call `start()` and `close()`: its end sends what waits, unless an
    exception ends the block, and aborts an open transaction.
    """

    _noun = "producer"

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        random: Random | None = None,
        clock: Clock | None = None,
        **named: object,
    ) -> None:
        self.values, functions = client_values(PRODUCER, producer_values, settings, named)
        self._key_serializer = serde_of("key.serializer", self.values, functions)
        self._value_serializer = serde_of("value.serializer", self.values, functions)
        super().__init__(Cluster(self.values, random, clock))
        transactional_id = self.values.get_optional_string("transactional.id")
        self._machine = None if transactional_id is None else TransactionMachine(transactional_id)
        self._sender = Sender(self.values, self.cluster, self._machine)
        self._accumulator = self._sender.accumulator
        self._transactions: Transactions | None = None
        if self._machine is not None:
            from kaa.client.producer.transactions import Transactions

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

    @property
    def is_transactional(self) -> bool:
        """Whether the settings name a transactional.id."""
        return self._machine is not None

    # --- life

    def _begin(self, tasks: asyncio.TaskGroup) -> None:
        self._sender.start(tasks)

    async def _finish(self, kind: type[BaseException] | None) -> None:
        if self._has_open_transaction:
            # The rest of it is not sent, and its coordinator may be away for good.
            with suppress(TimeoutError):
                async with asyncio.timeout(CLIENT_CLOSE_MS_MAX / 1000):
                    await self._abort_open_transaction()
        elif kind is None:
            await self.flush()

    def _stop(self) -> None:
        self._sender.stop()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await super().__aexit__(kind, *rest)
        # Connections that ended hand back what was under way in the next round of the loop.
        await asyncio.sleep(0)
        self._sender.fail_rest()

    def _abandoned(self) -> None:
        if not self._accumulator.is_idle:
            _log.warning(
                "a producer was not closed, and records that it had not sent are lost: "
                "use 'async with', or await close()"
            )

    @property
    def _has_open_transaction(self) -> bool:
        return self._machine is not None and self._machine.state in {
            TransactionStage.IN_TRANSACTION,
            TransactionStage.ABORTABLE,
        }

    async def _abort_open_transaction(self) -> None:
        """Nobody will commit it, and until it ends readers of committed records wait."""
        if self._has_open_transaction:
            try:
                await self.abort_transaction()
            except ClientError:
                # The coordinator aborts it after transaction.timeout.ms.
                return

    # --- sending

    async def send(
        self,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        **others: Never,
    ) -> Delivery:
        """Puts a record into a batch; waits only for metadata and for memory.

        Key and value are bytes, text, None, or what the serializers take; headers are a dictionary
        or pairs. Awaiting the result waits until the broker has the record.
        """
        if others:
            refuse_others("send", others, timestamp="timestamp_ms")
        encoded = self.encode(topic, value, key, headers)
        known = self.cluster.metadata.topics.get(topic)
        if known is None or self._sender.is_full:
            known = await self._ready(topic)
        return self._append(known, encoded, partition, timestamp_ms)

    def send_nowait(
        self,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """As `send` for a topic that is known; raises BufferExhaustedError when memory is full.

        A topic is known after a first `send` to it, or after `partitions_for`.
        """
        known = self.cluster.metadata.topics.get(topic)
        if known is None:
            raise ClientError(f"topic {topic!r} is not known yet; await send() or partitions_for()")
        if self._sender.is_full:
            raise BufferExhaustedError("buffer.memory is full; await send() or raise it")
        encoded = self.encode(topic, value, key, headers)
        return self._append(known, encoded, partition, timestamp_ms)

    async def send_encoded(
        self, topic: str, encoded: Encoded, partition: int | None, timestamp_ms: int | None
    ) -> Delivery:
        """As `send` for what `encode` gave, perhaps on another thread."""
        return self._append(await self._ready(topic), encoded, partition, timestamp_ms)

    def encode(self, topic: str, value: object, key: object, headers: Headers) -> Encoded:
        """Value, key and headers as bytes; raises SerializationError."""
        found = to_headers(headers) if headers else ()
        if value is not None and (type(value) is not bytes or self._value_serializer is not None):
            if self._value_serializer is not None:
                value = self._value_serializer(value, topic, tuple(found))
            value = to_bytes(value, "value")
        if key is not None and (type(key) is not bytes or self._key_serializer is not None):
            if self._key_serializer is not None:
                key = self._key_serializer(key, topic, tuple(found))
            key = to_bytes(key, "key")
        return value, key, found

    async def _ready(self, topic: str) -> Topic:
        """Waits for metadata of a topic, and for memory."""
        known = await self.cluster.topic(topic, self._max_block_ms, create=True)
        if self._sender.is_full:
            await self._sender.wait_for_memory()
        return known

    async def partitions_for(self, topic: str) -> Topic:
        """The partitions of a topic; it is created where the cluster allows that."""
        return await self.cluster.topic(topic, self._max_block_ms, create=True)

    def _append(
        self,
        topic: Topic,
        encoded: Encoded,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Delivery:
        if not self._is_running:
            self._running()
        value, key, headers = encoded
        size = record_bytes_max(key, value, headers)
        if size + HEADER_BYTES > self._request_bytes_max:
            raise KafkaError(
                Errors.MESSAGE_TOO_LARGE,
                f"record of {size} bytes",
                message=f"max.request.size is {self._request_bytes_max}",
                hint="send smaller records or raise max.request.size of the producer "
                f"(kaa produce -X max.request.size={size + HEADER_BYTES})",
            )
        if partition is None:
            partition = self._partitioner.choose(topic, key, size)
        elif type(partition) is not int:
            partition = whole_number(partition, "partition", most=INT32_MAX)
        if not 0 <= partition < len(topic.partitions):
            raise KafkaError(
                Errors.UNKNOWN_TOPIC_OR_PARTITION,
                f"partition {topic.name}-{partition}",
                message=f"the topic has {partitions_text(len(topic.partitions))}",
                hint=PARTITION_HINT,
            )
        target = self._partitions.get((topic.name, partition))
        if target is None:
            target = TopicPartition(topic.name, partition)
            self._partitions[target] = target
        if timestamp_ms is None:
            timestamp_ms = self.cluster.clock.wall_ms()
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= INT64_MAX:
            timestamp_ms = whole_number(timestamp_ms, "timestamp_ms")
        if self._machine is not None:
            self._machine.check_open("cannot send a record")
            if self._machine.maybe_add_partition(target):
                self._sender.wake_sender(target)
        now_ms = self.cluster.clock.monotonic_ms()
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
        self._running()
        if self._transactions is None:
            raise ClientError("transactions need a transactional.id in the settings")
        return self._transactions

    async def init_transactions(self) -> None:
        """Takes over the transactional id: who had it is fenced, what it left open is aborted."""
        await self._transactional().init()

    def begin_transaction(self) -> None:
        """Begins one; what is sent from now on can be read when it is committed."""
        self._transactional().begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata
    ) -> None:
        """Commits offsets of a consumer if and when the transaction is committed."""
        from kaa.client.group.offsets import offsets_of

        await self._transactional().send_offsets(offsets_of(offsets), group)

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
