"""The producer and the consumer for scripts without asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar

from kaa.client.arguments import names_of, partitions_of, refuse_others
from kaa.client.consumer import consumer as asynchronous_consumer
from kaa.client.errors import ClosedError
from kaa.client.group.membership import RebalanceListener
from kaa.client.producer import producer as asynchronous_producer
from kaa.client.sync import at_exit
from kaa.client.sync.admin import Admin
from kaa.client.sync.sends import SendQueue
from kaa.client.sync.thread import ClientThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping

    from kaa.client.consumer.consumer import ConsumerRecord, FetchedBatches
    from kaa.client.consumer.offsets import OffsetAndTimestamp
    from kaa.client.group.membership import GroupMetadata
    from kaa.client.group.offsets import OffsetAndMetadata
    from kaa.client.metadata import Topic
    from kaa.client.producer.producer import Delivery, RecordMetadata
    from kaa.client.serialization import Headers
    from kaa.model.topics import TopicPartition
    from kaa.records.batch import Buffer

__all__ = ["Admin", "Consumer", "Producer"]

Answer = TypeVar("Answer")


class Producer(ClientThread[asynchronous_producer.Producer]):
    """`kaa.client.Producer` without asyncio; `send` gives a future of `RecordMetadata`."""

    def __init__(self, settings: Mapping[str, object] | None = None, **named: object) -> None:
        super().__init__(
            lambda: asynchronous_producer.Producer(settings, random=None, clock=None, **named)
        )
        self._sends: SendQueue | None = None

    def send(
        self,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        **others: Never,
    ) -> concurrent.futures.Future[RecordMetadata]:
        """Hands a record over; the result of the future waits for the broker."""
        if others:
            refuse_others("send", others, timestamp="timestamp_ms")
        twin = self.asynchronous
        # Now, while what was given is as it is: the caller may change it before it is sent.
        value, key, found = twin.encode(topic, value, key, headers)
        encoded = (_kept(value), _kept(key), found)
        if twin.is_transactional:
            assert self._loop is not None
            # It must be in the transaction that is open now.
            delivery = self._call(twin.send_encoded(topic, encoded, partition, timestamp_ms))
            return asyncio.run_coroutine_threadsafe(_delivered(delivery), self._loop)
        assert self._sends is not None
        return self._sends.put(topic, encoded, partition, timestamp_ms)

    def __enter__(self) -> Self:
        super().__enter__()
        assert self._loop is not None
        self._sends = SendQueue(self.asynchronous.send_encoded, self._loop)
        at_exit.watch(self)
        return self

    def __exit__(self, *exception: object) -> None:
        at_exit.forget(self)
        try:
            if self._sends is not None and self._thread.is_alive():
                self._call(self._sends.drain())
        finally:
            super().__exit__(*exception)

    def flush(self) -> None:
        """Waits until every record that was handed over is delivered or given up."""
        self._call(self._flush())

    def finish(self, seconds_max: float) -> bool:
        """Flushes for so long at most; tells whether everything is delivered or given up.

        The end of a program calls it for producers that are still open.
        """
        if not self._thread.is_alive() or self._loop is None:
            return True
        flushing = asyncio.run_coroutine_threadsafe(self._flush(), self._loop)
        return not concurrent.futures.wait([flushing], seconds_max).not_done

    async def _flush(self) -> None:
        if self._sends is not None:
            await self._sends.drain()
        await self.asynchronous.flush()

    def partitions_for(self, topic: str) -> Topic:
        """The partitions of a topic; it is created where the cluster allows that."""
        return self._call(self.asynchronous.partitions_for(topic))

    def init_transactions(self) -> None:
        """Takes over the transactional id: who had it is fenced, what it left open is aborted."""
        self._call(self.asynchronous.init_transactions())

    def begin_transaction(self) -> None:
        """Begins one; what is sent from now on can be read when it is committed."""
        self._do(self.asynchronous.begin_transaction)

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata
    ) -> None:
        """Commits offsets of a consumer if and when the transaction is committed."""
        self._call(self.asynchronous.send_offsets_to_transaction(offsets, group))

    def commit_transaction(self) -> None:
        """Sends what waits and commits; raises what makes an abort necessary."""
        self._call(self.asynchronous.commit_transaction())

    def abort_transaction(self) -> None:
        """Gives up what waits and aborts, also after an error."""
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
    """`kaa.client.Consumer` without asyncio.

    Methods of a listener are called by the thread that polls.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, **named: object) -> None:
        super().__init__(
            lambda: asynchronous_consumer.Consumer(settings, random=None, clock=None, **named)
        )
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
        """Reads these topics, or all that match a pattern, together with the rest of the group.

        The listener is called by the thread that polls.
        """
        wrapped = None if listener is None else _CallersListener(listener, self._jobs)
        twin, names = self.asynchronous, names_of(topics)
        self._do(lambda: twin.subscribe(names, pattern=pattern, listener=wrapped))

    def unsubscribe(self) -> None:
        """Leaves the group, or gives up assigned partitions."""
        self._call_with_listener(self.asynchronous.unsubscribe())

    def _call_with_listener(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """As `_call`, while this thread does what the listener wants done."""
        if self._loop is None:
            work.close()
            raise ClosedError("the client is not running; use it inside 'with', or call start()")
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        done.add_done_callback(lambda _: self._jobs.put(None))
        try:
            while (job := self._jobs.get()) is not None:
                job()
            return done.result()
        except KeyboardInterrupt:
            # Nobody would get what it returns.
            done.cancel()
            raise

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, whatever others do; known ones keep their place."""
        self._do(self.asynchronous.assign, partitions_of(partitions))

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read now, assigned by hand or by the group."""
        return self.asynchronous.assignment

    def group_metadata(self) -> GroupMetadata:
        """Who this member is, for `Producer.send_offsets_to_transaction`."""
        return self._do(self.asynchronous.group_metadata)

    def high_watermark(self, partition: TopicPartition) -> int:
        """The end of the partition for consumers, as last heard; -1 if nothing was fetched."""
        return self._do(self.asynchronous.high_watermark, partition)

    @property
    def paused(self) -> tuple[TopicPartition, ...]:
        """The assigned partitions that are paused."""
        return self._do(lambda: self.asynchronous.paused)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls hand out nothing of these partitions until `resume`; they stay assigned."""
        self._do(self.asynchronous.pause, partitions_of(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Ends `pause` for these partitions."""
        self._do(self.asynchronous.resume, partitions_of(partitions))

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commits these offsets, or how far the last poll came, and waits until it is done."""
        self._call(self.asynchronous.commit(offsets))

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> concurrent.futures.Future[None]:
        """As `commit`, tried once, without waiting; the outcome may be looked at or left."""
        outcome = self._do(self.asynchronous.commit_async, offsets)
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(_outcome(outcome), self._loop)

    def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group committed in these partitions, or in those assigned; others are absent."""
        return self._call(self.asynchronous.committed(partitions))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next poll hands out the record with this offset, or the first one after it."""
        self._do(self.asynchronous.seek, partition, offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """The next poll starts at the first records there are; without partitions, of all."""
        self._call(self.asynchronous.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """The next poll starts with what is written from now on; without partitions, of all."""
        self._call(self.asynchronous.seek_to_end(partitions))

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that a poll hands out."""
        return self._call(self.asynchronous.position(partition))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic; raises if it is not there."""
        return self._call(self.asynchronous.partitions_for(topic))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """By partition the offset of the first record there is."""
        return self._call(self.asynchronous.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends for this isolation level: under read_committed the last stable offset."""
        return self._call(self.asynchronous.end_offsets(partitions))

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time; None where there is none."""
        return self._call(self.asynchronous.offsets_for_times(times_ms))

    def poll(
        self, timeout_ms: int | None = None, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next records by partition; waits at most `timeout_ms` (None: for ever)."""
        return self._call_with_listener(self.asynchronous.poll(timeout_ms, max_records))

    def fetch_batches(
        self, partition: TopicPartition, offset: int, max_bytes: int, *, max_wait_ms: int = 0
    ) -> FetchedBatches:
        """One fetch from the leader, undecoded: for readers that decode many batches at once."""
        return self._call(
            self.asynchronous.fetch_batches(partition, offset, max_bytes, max_wait_ms=max_wait_ms)
        )

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records one by one, for ever; leave the loop to end.

        What the loop did not hand out counts as not read: the next loop or poll gives it.
        """
        twin = self.asynchronous
        while True:
            # Held records change in calls of this thread alone, so that it may take them itself.
            for partition in self._call_with_listener(twin.poll_held()):
                while (record := twin.hand_out(partition)) is not None:
                    yield record


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
