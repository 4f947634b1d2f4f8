"""The remote segments of partitions, read from the metadata topic on from where a process is.

Only the metadata partitions that the partitions of a query fall to are read, up to where they end
when they are asked for. What was read is kept by the process: a stream reads on with every batch.

A new process would read all of them from their start. So, when it has read many records, it leaves
what it knows in the store for the next one, an object for each metadata partition:

    kaa-spark/<id of the metadata topic>-<number>.snapshot

in the format of `kaa.tier.metadata.snapshot`, which has the position. One that is damaged, or ahead
of the topic, counts as none; and a store that must not be written to just gets none.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kaa.client.consumer.offsets import EARLIEST, LATEST, list_offsets
from kaa.limits import SPARK_FETCH_BYTES, SPARK_TIER_SNAPSHOT_RECORDS
from kaa.model.pieces import finish
from kaa.model.topics import REMOTE_LOG_METADATA, TopicPartition
from kaa.records.batch import RecordBatch
from kaa.records.legacy import iter_any_batches
from kaa.records.record import iter_records
from kaa.tier.metadata.machine import MetadataMachine
from kaa.tier.metadata.records import metadata_partition
from kaa.tier.metadata.snapshot import SnapshotError, decode_snapshot, encode_snapshot
from kaa.tier.store.objects import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.spark.brokers import Brokers
    from kaa.tier.metadata.cache import RemoteLogCache
    from kaa.tier.metadata.machine import MetadataPartition
    from kaa.tier.metadata.model import TopicIdPartition
    from kaa.tier.store.objects import ObjectStore

_FOLDER: Final = "kaa-spark"


class RemoteMetadata:
    """The remote segments of a cluster as a driver of Spark knows them. `caches` reads on to the
    end of the topic before it answers.
    """

    def __init__(self, brokers: Brokers, store: ObjectStore) -> None:
        self._brokers = brokers
        self._store = store
        # None until the topic's number of partitions is known.
        self._machine: MetadataMachine | None = None
        self._topic_id = ""

    async def caches(
        self, partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, RemoteLogCache]:
        """What is known of each partition now. ClientError, RemoteMetadataError."""
        wanted = list(partitions)
        machine = await self._find_machine()
        machine.assign(wanted)
        numbers = {metadata_partition(one, machine.partitions) for one in wanted}
        names = {number: TopicPartition(REMOTE_LOG_METADATA, number) for number in numbers}
        cluster, timeout_ms = self._brokers.cluster, self._brokers.timeout_ms
        starts, ends = [
            await list_offsets(cluster, dict.fromkeys(names.values(), time), timeout_ms)
            for time in (EARLIEST, LATEST)
        ]
        for number, state in machine.reading():
            if number in numbers:
                name = names[number]
                await self._read(number, state, starts[name].offset, ends[name].offset)
        return {one: machine.user(one).cache for one in wanted}

    async def _find_machine(self) -> MetadataMachine:
        topic = await self._brokers.cluster.topic(REMOTE_LOG_METADATA, self._brokers.timeout_ms)
        if self._machine is None or str(topic.topic_id) != self._topic_id:
            self._machine = MetadataMachine(len(topic.partitions))
            self._topic_id = str(topic.topic_id)
        return self._machine

    async def _read(self, number: int, state: MetadataPartition, start: int, end: int) -> None:
        assert self._machine is not None
        if state.position == 0:
            state = await self._restore(number, state, end)
        self._machine.trimmed(number, start)
        self._machine.set_target(number, end)
        begin = state.position
        name = TopicPartition(REMOTE_LOG_METADATA, number)
        while state.position < end and not state.broken:
            fetched = await self._brokers.fetch_batches(name, state.position, SPARK_FETCH_BYTES)
            for batch in iter_any_batches(fetched.data):
                assert isinstance(batch, RecordBatch)
                if not batch.is_control:
                    for record in iter_records(batch):
                        self._machine.apply(number, record.offset, record.value)
            if not state.broken:
                state.position = max(state.position, fetched.next_offset)
        if state.position - begin >= SPARK_TIER_SNAPSHOT_RECORDS and not state.broken:
            await self._save(number, state)

    # --- snapshots

    def _object(self, number: int) -> str:
        return f"{_FOLDER}/{self._topic_id}-{number}.snapshot"

    async def _restore(self, number: int, state: MetadataPartition, end: int) -> MetadataPartition:
        assert self._machine is not None
        try:
            data = await self._store.get(self._object(number))
            restored = finish(decode_snapshot(data, self._machine.partitions))[number]
        except (StoreError, SnapshotError, KeyError):
            return state
        if restored.position > end or not self._machine.restore(number, restored):
            return state
        return restored

    async def _save(self, number: int, state: MetadataPartition) -> None:
        assert self._machine is not None
        data = bytes(finish(encode_snapshot(self._machine.partitions, [(number, state)])))
        with suppress(StoreError):
            await self._store.put(self._object(number), data)
