"""The client for scripts without asyncio: the same classes, each on a thread with its own loop.

::

    with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        producer.send("orders", b"value").result()
    with Consumer({"bootstrap.servers": "localhost:9092", "group.id": "billing"}) as consumer:
        consumer.subscribe(["orders"])
        print(consumer.poll(timeout_ms=1000))

A method waits until its asynchronous twin is done and gives or raises the same. Objects may be used
by several threads; calls run one at a time on the loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kaa.client import consumer as asynchronous_consumer
from kaa.client import producer as asynchronous_producer
from kaa.client.errors import ClosedError
from kaa.client.group.membership import RebalanceListener
from kaa.client.sync_admin import Admin
from kaa.client.sync_sends import SendQueue
from kaa.client.sync_thread import ClientThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    from kaa.client.consumer import ConsumerRecord, FetchedBatches
    from kaa.client.group.membership import GroupMetadata
    from kaa.client.group_offsets import OffsetAndMetadata
    from kaa.client.metadata import Topic, TopicPartition
    from kaa.client.offsets import OffsetAndTimestamp
    from kaa.client.producer import Delivery, RecordMetadata
    from kaa.records.batch import Buffer
    from kaa.records.record import Header, Record

__all__ = ["Admin", "Consumer", "Producer"]

Answer = TypeVar("Answer")


class Producer(ClientThread[asynchronous_producer.Producer]):
    """See ``kaa.client.producer``."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(lambda: asynchronous_producer.Producer(settings))
        self._sends: SendQueue | None = None

    def send(
        self,
        topic: str,
        value: Buffer | None,
        *,
        key: Buffer | None = None,
        partition: int | None = None,
        headers: Sequence[Header] = (),
        timestamp_ms: int | None = None,
    ) -> concurrent.futures.Future[RecordMetadata]:
        """Hands a record over; the result of the future waits for the broker."""
        twin = self.asynchronous
        named: dict[str, Any] = {
            "key": key,
            "partition": partition,
            "headers": headers,
            "timestamp_ms": timestamp_ms,
        }
        if twin.is_transactional:
            assert self._loop is not None
            # It must be in the transaction that is open now.
            delivery = self._call(twin.send(topic, value, **named))
            return asyncio.run_coroutine_threadsafe(_delivered(delivery), self._loop)
        assert self._sends is not None
        return self._sends.put(topic, _kept(value), **{**named, "key": _kept(key)})

    def __enter__(self) -> Self:
        super().__enter__()
        assert self._loop is not None
        self._sends = SendQueue(self.asynchronous.send, self._loop)
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            if self._sends is not None and self._thread.is_alive():
                self._call(self._sends.drain())
        finally:
            super().__exit__(*exception)

    def flush(self) -> None:
        if self._sends is not None:
            self._call(self._sends.drain())
        self._call(self.asynchronous.flush())

    def partitions_for(self, topic: str) -> Topic:
        return self._call(self.asynchronous.partitions_for(topic))

    def init_transactions(self) -> None:
        self._call(self.asynchronous.init_transactions())

    def begin_transaction(self) -> None:
        self._do(self.asynchronous.begin_transaction)

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata
    ) -> None:
        self._call(self.asynchronous.send_offsets_to_transaction(offsets, group))

    def commit_transaction(self) -> None:
        self._call(self.asynchronous.commit_transaction())

    def abort_transaction(self) -> None:
        self._call(self.asynchronous.abort_transaction())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begins; commits at the end of the block, or aborts if an exception ends it."""
        block = self.asynchronous.transaction()
        self._call(block.__aenter__())
        try:
            yield
        except BaseException as error:
            self._call(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._call(block.__aexit__(None, None, None))


def _kept(buffer: Buffer | None) -> bytes | None:
    """The bytes as they are now: the caller may reuse its buffer before they are looked at."""
    return buffer if buffer is None or type(buffer) is bytes else bytes(buffer)


async def _delivered(delivery: Delivery) -> RecordMetadata:
    return await delivery


async def _outcome(commit: asyncio.Future[None]) -> None:
    await commit


class Consumer(ClientThread[asynchronous_consumer.Consumer]):
    """See ``kaa.client.consumer``. Methods of a listener are called by the thread that polls."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(lambda: asynchronous_consumer.Consumer(settings))
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def __exit__(self, *exception: object) -> None:
        try:
            if self._twin is not None:
                self.unsubscribe()
        finally:
            super().__exit__(*exception)

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        wrapped = None if listener is None else _CallersListener(listener, self._jobs)
        twin = self.asynchronous
        if not isinstance(topics, str):
            topics = list(topics)
        self._do(lambda: twin.subscribe(topics, pattern=pattern, listener=wrapped))

    def unsubscribe(self) -> None:
        self._call_with_listener(self.asynchronous.unsubscribe())

    def _call_with_listener(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """As ``_call``, while this thread does what the listener wants done."""
        if self._loop is None:
            work.close()
            raise ClosedError("the client is not running; use it inside 'with'")
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        done.add_done_callback(lambda _: self._jobs.put(None))
        while (job := self._jobs.get()) is not None:
            job()
        return done.result()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._do(self.asynchronous.assign, list(partitions))

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return self.asynchronous.assignment

    def group_metadata(self) -> GroupMetadata:
        return self._do(self.asynchronous.group_metadata)

    def high_watermark(self, partition: TopicPartition) -> int:
        return self._do(self.asynchronous.high_watermark, partition)

    @property
    def paused(self) -> tuple[TopicPartition, ...]:
        return self._do(lambda: self.asynchronous.paused)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._do(self.asynchronous.pause, list(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._do(self.asynchronous.resume, list(partitions))

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        self._call(self.asynchronous.commit(offsets))

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> concurrent.futures.Future[None]:
        """As ``commit``, tried once, without waiting; the outcome may be looked at or left."""
        outcome = self._do(self.asynchronous.commit_async, offsets)
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(_outcome(outcome), self._loop)

    def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._call(self.asynchronous.committed(partitions))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._do(self.asynchronous.seek, partition, offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self._call(self.asynchronous.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self._call(self.asynchronous.seek_to_end(partitions))

    def position(self, partition: TopicPartition) -> int:
        return self._call(self.asynchronous.position(partition))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        return self._call(self.asynchronous.partitions_for(topic))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._call(self.asynchronous.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._call(self.asynchronous.end_offsets(partitions))

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._call(self.asynchronous.offsets_for_times(times_ms))

    def poll(
        self, timeout_ms: int | None = None, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        return self._call_with_listener(self.asynchronous.poll(timeout_ms, max_records))

    def fetch_batches(
        self, partition: TopicPartition, offset: int, max_bytes: int, *, max_wait_ms: int = 0
    ) -> FetchedBatches:
        return self._call(
            self.asynchronous.fetch_batches(partition, offset, max_bytes, max_wait_ms=max_wait_ms)
        )

    def __iter__(self) -> Iterator[ConsumerRecord]:
        make = asynchronous_consumer.ConsumerRecord
        while True:
            for (topic, partition), records in self.poll().items():
                for offset, timestamp, key, value, headers, _ in records:
                    yield make(topic, partition, offset, timestamp, key, value, headers)


class _CallersListener(RebalanceListener):
    """Passes calls on to the thread that polls, which may use the consumer meanwhile."""

    def __init__(
        self, listener: RebalanceListener, jobs: SimpleQueue[Callable[[], None] | None]
    ) -> None:
        self._listener = listener
        self._jobs = jobs

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        await self._pass_on(self._listener.on_partitions_assigned, partitions)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await self._pass_on(self._listener.on_partitions_revoked, partitions)

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        await self._pass_on(self._listener.on_partitions_lost, partitions)

    async def _pass_on(
        self, method: Callable[[list[TopicPartition]], object], partitions: list[TopicPartition]
    ) -> None:
        outcome: concurrent.futures.Future[None] = concurrent.futures.Future()

        def job() -> None:
            try:
                method(partitions)
            except BaseException as error:  # noqa: BLE001  The poll raises it.
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

        self._jobs.put(job)
        await asyncio.wrap_future(outcome)
