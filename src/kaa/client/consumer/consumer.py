"""The consumer: of partitions that its user assigns, or that a group shares out.

    settings = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
    async with Consumer(settings) as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            ...

    async with Consumer({"bootstrap.servers": "localhost:9092"}) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        await consumer.seek_to_beginning()
        for partition, records in (await consumer.poll()).items():
            ...

Records are fetched in the background (`fetcher`). A consumer with a `group.id` that subscribes
takes part in the group (`group.membership`): rebalances, their listener and commits in the
background happen inside `poll`, as in Java, so that no partition is given away while the
application still works on what the last poll gave it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaa.client.arguments import (
    INT32_MAX,
    carried,
    names_of,
    pairs_of,
    partition_of,
    partitions_of,
    wait_ms_of,
    whole_number,
)
from kaa.client.cluster import Cluster
from kaa.client.consumer.fetcher import Fetcher
from kaa.client.consumer.offsets import EARLIEST, LATEST
from kaa.client.consumer.records import ConsumerRecord, deserialized
from kaa.client.consumer.requests import FetchBounds, FetchedBatches, fetch_batches
from kaa.client.errors import ClientError, NotSubscribedError, SerializationError
from kaa.client.life import ClientLife
from kaa.client.serialization import serde_of
from kaa.client.settings import client_values
from kaa.client.waiting import wait_for_event
from kaa.config.client import CONSUMER, consumer_values
from kaa.model.topics import TopicPartition
from kaa.wire.primitives import random_uuid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from random import Random

    from kaa.client.consumer.offsets import OffsetAndTimestamp
    from kaa.client.group.membership import GroupMetadata, Membership, RebalanceListener
    from kaa.client.group.offsets import OffsetAndMetadata
    from kaa.model.seams import Clock

__all__ = ["Consumer", "ConsumerRecord", "FetchedBatches"]


class Consumer(ClientLife):
    """Reads records of topics together with its group, or of partitions that it is assigned.

    Settings have the names and defaults of Java's consumer, as a dictionary
    (`{"bootstrap.servers": "localhost:9092"}`) or by name (`bootstrap_servers="localhost:9092"`).
    Use it inside `async with`, or call `start()` and `close()`: its end commits if that is wanted,
    and leaves the group.
    """

    _noun = "consumer"

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        random: Random | None = None,
        clock: Clock | None = None,
        **named: object,
    ) -> None:
        self.values, functions = client_values(CONSUMER, consumer_values, settings, named)
        self._key_deserializer = serde_of("key.deserializer", self.values, functions)
        self._value_deserializer = serde_of("value.deserializer", self.values, functions)
        super().__init__(Cluster(self.values, random, clock))
        self._membership: Membership | None = None
        has_group = self.values.value("group.id") is not None
        self._fetcher = Fetcher(
            self.values, self.cluster, self._find_committed if has_group else None
        )
        if has_group:
            from kaa.client.group.membership import Membership

            member_id = str(random_uuid(self.cluster.random.randbytes))
            self._membership = Membership(self.values, self.cluster, self._fetcher, member_id)
        self._poll_records_max = self.values.get_int("max.poll.records")
        self._timeout_ms = self.values.get_int("default.api.timeout.ms")

    # --- life

    def _begin(self, tasks: asyncio.TaskGroup) -> None:
        self._fetcher.start(tasks)

    async def _finish(self, kind: type[BaseException] | None) -> None:
        if self._membership is not None:
            await self._membership.leave()

    def _stop(self) -> None:
        self._fetcher.stop()

    # --- subscription and assignment

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Reads these topics, or all that match a pattern, together with the rest of the group.

        The pattern is one of Python, applied to whole names, or with `group.protocol=consumer`
        one of RE2 that the broker applies.
        """
        membership = self._group()
        if self._fetcher.assigned and not membership.is_subscribed:
            raise ClientError("the consumer has assigned partitions; unsubscribe() first")
        names = frozenset(names_of(topics))
        if bool(names) == (pattern is not None):
            raise ValueError("give topics or a pattern")
        if pattern is not None:
            carried(pattern, "pattern")
        membership.subscribe(self._running(), names, pattern, listener)

    async def unsubscribe(self) -> None:
        """Leaves the group, or gives up assigned partitions."""
        if self._membership is not None and self._membership.is_subscribed:
            await self._membership.leave()
            self._membership = self._membership.rejoining()
        self._fetcher.assign([])

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, whatever others do; known ones keep their place."""
        if self._membership is not None and self._membership.is_subscribed:
            raise ClientError("the consumer is subscribed to topics; unsubscribe() first")
        self._fetcher.assign(partitions_of(partitions))

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read now, assigned by hand or by the group."""
        return tuple(self._fetcher.assigned)

    def _group(self) -> Membership:
        if self._membership is None:
            raise ClientError("groups need a group.id in the settings")
        return self._membership

    def group_metadata(self) -> GroupMetadata:
        """Who this member is, for `Producer.send_offsets_to_transaction`."""
        return self._group().metadata()

    # --- positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next poll hands out the record with this offset, or the first one after it."""
        self._fetcher.state(partition_of(partition)).seek(whole_number(offset, "an offset"))
        self._fetcher.wake()

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """The next poll starts at the first records there are; without partitions, of all."""
        await self._seek_to(partitions, EARLIEST)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """The next poll starts with what is written from now on; without partitions, of all."""
        await self._seek_to(partitions, LATEST)

    async def _seek_to(self, partitions: Iterable[TopicPartition], time_ms: int) -> None:
        wanted = dict.fromkeys(partitions_of(partitions) or self.assignment, time_ms)
        for partition, found in (await self._fetcher.list_offsets(wanted)).items():
            self.seek(partition, found.offset)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that a poll or a loop hands out."""
        state = self._fetcher.state(partition_of(partition))
        if state.reached is None:
            await self._fetcher.resolve([partition])
        assert state.reached is not None
        return state.reached

    def high_watermark(self, partition: TopicPartition) -> int:
        """The end of the partition for consumers, as last heard; -1 if nothing was fetched."""
        return self._fetcher.state(partition_of(partition)).high_watermark

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls hand out nothing of these partitions until `resume`; they stay assigned."""
        for partition in partitions_of(partitions):
            self._fetcher.state(partition).is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Ends `pause` for these partitions."""
        for partition in partitions_of(partitions):
            self._fetcher.state(partition).is_paused = False
        self._fetcher.wake()

    @property
    def paused(self) -> tuple[TopicPartition, ...]:
        """The assigned partitions that are paused."""
        return tuple(one for one, state in self._fetcher.assigned.items() if state.is_paused)

    # --- commits

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commits these offsets, or how far the application is, and waits until it is done.

        That is after the last poll, or in a loop after the record that it handed out last.
        """
        await self._group().commit(self._to_commit(offsets), self._timeout_ms)

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> asyncio.Future[None]:
        """As `commit`, tried once, without waiting; the outcome may be awaited or left."""
        membership, given = self._group(), self._to_commit(offsets)
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            try:
                if given:
                    await membership.commit_once(given)
            except Exception as error:  # noqa: BLE001  The one who asks for the outcome gets it.
                if not outcome.done():
                    outcome.set_exception(error)
                    if isinstance(error, ClientError):
                        outcome.exception()
            else:
                if not outcome.done():
                    outcome.set_result(None)

        membership.begin_commit(self._running(), work())
        return outcome

    def _to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        from kaa.client.group.offsets import offsets_of

        self._running()
        return self._group().positions() if offsets is None else offsets_of(offsets)

    async def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group committed in these partitions, or in those assigned; others are absent."""
        wanted = self.assignment if partitions is None else partitions_of(partitions)
        if not wanted:
            return {}
        return await self._group().committed(wanted, self._timeout_ms)

    async def _find_committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        found = await self._group().committed(partitions, self._timeout_ms)
        return {partition: committed.offset for partition, committed in found.items()}

    # --- offsets

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic; raises if it is not there."""
        found = await self.cluster.topic(topic, self._timeout_ms)
        return [TopicPartition(topic, one.partition) for one in found.partitions]

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """By partition the offset of the first record there is."""
        wanted = dict.fromkeys(partitions_of(partitions), EARLIEST)
        found = await self._fetcher.list_offsets(wanted)
        return {partition: answer.offset for partition, answer in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends for this isolation level: under read_committed the last stable offset."""
        wanted = dict.fromkeys(partitions_of(partitions), LATEST)
        found = await self._fetcher.list_offsets(wanted)
        return {partition: answer.offset for partition, answer in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time; None where there is none."""
        found = await self._fetcher.list_offsets(
            {
                partition_of(partition): whole_number(time_ms, "a time in milliseconds")
                for partition, time_ms in pairs_of(times_ms, "partitions and times")
            }
        )
        return {
            partition: answer if answer.offset >= 0 else None for partition, answer in found.items()
        }

    # --- records

    async def poll(
        self, timeout_ms: int | None = None, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next records by partition; waits at most `timeout_ms` (None: for ever).

        Raises NotSubscribedError before `subscribe` or `assign`, as there is nothing to wait for.
        """
        count_max = whole_number(max_records or self._poll_records_max, "max_records")
        found = await self._poll(wait_ms_of(timeout_ms), count_max)
        if self._key_deserializer is None and self._value_deserializer is None:
            return found
        polled: dict[TopicPartition, list[ConsumerRecord]] = {}
        self._hold(found)
        for partition in found:
            records = polled[partition] = []
            try:
                while (record := self.hand_out(partition)) is not None:
                    records.append(record)
            except SerializationError:
                # What came before it counts; the next poll meets it again.
                if not any(polled.values()):
                    raise
                break
        return {partition: records for partition, records in polled.items() if records}

    async def _poll(
        self, timeout_ms: int | None, count_max: int
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        tasks = self._running()
        membership, fetcher = self._membership, self._fetcher
        is_member = membership is not None and membership.is_subscribed
        if not is_member and not fetcher.assigned:
            raise NotSubscribedError(
                "the consumer reads nothing yet: call subscribe([topic]), or assign([partition])"
            )
        deadline: float | None = None
        while True:
            if is_member:
                assert membership is not None
                await membership.poll(tasks)
            records = fetcher.take(count_max)
            if records or timeout_ms == 0:
                return records
            # Nothing can have come since, for nobody else ran.
            fetcher.arrived.clear()
            if timeout_ms is None:
                await fetcher.arrived.wait()
                continue
            now = asyncio.get_running_loop().time()
            if deadline is None:
                deadline = now + timeout_ms / 1000
            if not await wait_for_event(fetcher.arrived, (deadline - now) * 1000):
                return records

    async def poll_held(self) -> list[TopicPartition]:
        """For loops: waits for records and keeps them, for `hand_out` to give one by one."""
        found = await self._poll(None, self._poll_records_max)
        self._hold(found)
        return list(found)

    def _hold(self, found: dict[TopicPartition, list[ConsumerRecord]]) -> None:
        for partition, records in found.items():
            self._fetcher.assigned[partition].held.extend(records)

    def hand_out(self, partition: TopicPartition) -> ConsumerRecord | None:
        """The next record that is held of a partition, which the application has from now on."""
        state = self._fetcher.assigned.get(partition)
        if state is None or state.is_paused or not state.held:
            return None
        record = state.held[0]
        key, value = self._key_deserializer, self._value_deserializer
        if key is not None or value is not None:
            try:
                record = deserialized(record, key, value)
            except SerializationError as error:
                raise SerializationError(
                    f"{error} (offset {record.offset} of {partition}; seek past it to go on)"
                ) from error
        state.held.popleft()
        return record

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Records one by one, for ever; leave the loop to end.

        What the loop did not hand out counts as not read: the next loop or poll gives it.
        """
        while True:
            for partition in await self.poll_held():
                while (record := self.hand_out(partition)) is not None:
                    yield record

    async def fetch_batches(
        self, partition: TopicPartition, offset: int, max_bytes: int, *, max_wait_ms: int = 0
    ) -> FetchedBatches:
        """One fetch from the leader, undecoded: for readers that decode many batches at once.

        The leader waits for a record for at most `max_wait_ms`; the default does not wait.
        """
        bytes_max = whole_number(max_bytes, "max_bytes", most=INT32_MAX)
        bounds = FetchBounds(
            partition_bytes_max=bytes_max,
            bytes_max=bytes_max,
            wait_ms=whole_number(max_wait_ms, "max_wait_ms", most=INT32_MAX),
            isolation_level=self._fetcher.isolation_level,
            rack_id=self.values.get_string("client.rack"),
        )
        return await fetch_batches(
            self.cluster,
            partition_of(partition),
            whole_number(offset, "an offset"),
            bounds,
            self._timeout_ms,
        )
