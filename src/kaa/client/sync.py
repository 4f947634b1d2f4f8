"""The client for scripts without asyncio: the same classes, each on a thread with its own loop.

::

    with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        producer.send("orders", b"value").result()
    with Consumer({"bootstrap.servers": "localhost:9092"}) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        print(consumer.poll(timeout_ms=1000))

A method waits until its asynchronous twin is done and gives or raises the same. Objects may be used
by several threads; calls run one at a time on the loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from kaa.client import admin as asynchronous_admin
from kaa.client import consumer as asynchronous_consumer
from kaa.client import producer as asynchronous_producer
from kaa.client.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    from kaa.client.consumer import ConsumerRecord, FetchedBatches
    from kaa.client.metadata import Topic, TopicPartition
    from kaa.client.offsets import OffsetAndTimestamp
    from kaa.client.producer import RecordMetadata
    from kaa.records.batch import Buffer
    from kaa.records.record import Header, Record

Twin = TypeVar("Twin", bound=Any)
Answer = TypeVar("Answer")


class _Thread(Generic[Twin]):
    """Runs one asynchronous object on a thread, from ``__enter__`` to ``__exit__``."""

    def __init__(self, make: Callable[[], Twin]) -> None:
        self._make = make
        self._twin: Twin | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="kaa client", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._twin = None
        if self._failure is not None:
            raise self._failure

    @property
    def asynchronous(self) -> Twin:
        """The object behind this one; use it on its own loop alone."""
        if self._twin is None:
            raise ClosedError("the client is not running; use it inside 'with'")
        return self._twin

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001  The thread that waits gets it.
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._make() as twin:
            self._twin = twin
            self._started.set_result(None)
            await self._stop.wait()

    def _call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        if self._twin is None or self._loop is None:
            work.close()
            raise ClosedError("the client is not running; use it inside 'with'")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _do(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """Calls a plain function on the loop."""

        async def work() -> Answer:
            return function(*arguments)

        return self._call(work())


class Producer(_Thread[asynchronous_producer.Producer]):
    """See ``kaa.client.producer``."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(lambda: asynchronous_producer.Producer(settings))

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
        assert self._loop is not None

        async def work() -> RecordMetadata:
            return await (
                await twin.send(
                    topic,
                    value,
                    key=key,
                    partition=partition,
                    headers=headers,
                    timestamp_ms=timestamp_ms,
                )
            )

        return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def flush(self) -> None:
        self._call(self.asynchronous.flush())

    def partitions_for(self, topic: str) -> Topic:
        return self._call(self.asynchronous.partitions_for(topic))


class Consumer(_Thread[asynchronous_consumer.Consumer]):
    """See ``kaa.client.consumer``."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(lambda: asynchronous_consumer.Consumer(settings))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._do(self.asynchronous.assign, list(partitions))

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
        return self._call(self.asynchronous.poll(timeout_ms, max_records))

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


class Admin(_Thread[asynchronous_admin.Admin]):
    """See ``kaa.client.admin``; ``run`` calls any method of it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(lambda: asynchronous_admin.Admin(settings))

    def run(
        self, work: Callable[[asynchronous_admin.Admin], Coroutine[Any, Any, Answer]]
    ) -> Answer:
        """For example ``admin.run(lambda admin: admin.list_topics())``."""
        return self._call(work(self.asynchronous))
