"""A topic in a test: filled, read and compared over the wire, as a client would."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kaa import limits
from kaa.client.consumer.records import ConsumerRecord, records_of
from kaa.records.batch import iter_batches
from kaa.records.build import BatchBuilder
from kaa.records.partitioner import partition_of_key
from kaa.records.record import iter_records
from kaa.testing.client import check
from kaa.testing.differences import difference, match
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kaa.testing.client import Client
    from kaa.wire.schema import Request

EARLIEST: Final = -2
LATEST: Final = -1
_ACKS_ALL: Final = -1
_TIMEOUT_MS: Final = 30_000


class Topic:
    """A topic by its name; `Broker.topic` makes one that exists."""

    def __init__(
        self, name: str, client: Callable[[], Client], wait_for: Callable[..., Any]
    ) -> None:
        self.name = name
        self._client = client
        self._wait_for = wait_for

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    # --- write

    def seed(self, records: Iterable[object]) -> None:
        """Writes records: values, pairs (key, value), or mappings with any of `key`, `value`,
        `headers`, `partition` and `timestamp_ms`; also what a consumer read. Text is written
        as UTF-8.

        A key decides the partition as Kafka's clients decide it; records without one take turns.
        """
        leaders = self._leaders()
        builders: dict[int, BatchBuilder] = {}
        now_ms = time.time_ns() // 1_000_000
        for number, each in enumerate(_several(records)):
            fields = _fields(each)
            key = _bytes(fields.get("key"))
            partition = fields.get("partition")
            if partition is None:
                by_turn = number % len(leaders)
                partition = by_turn if key is None else partition_of_key(key, len(leaders))
            builder = builders.setdefault(partition, BatchBuilder())
            pairs = fields.get("headers", ())
            pairs = pairs.items() if isinstance(pairs, dict) else pairs
            headers = [(name, _bytes(value)) for name, value in pairs]
            timestamp_ms = fields.get("timestamp_ms", now_ms)
            builder.append(timestamp_ms, key, _bytes(fields.get("value")), headers)
        for partition, builder in builders.items():
            self._produce(partition, leaders[partition], builder.build())

    def _produce(self, partition: int, leader_id: int, batch: bytearray) -> None:
        row = PartitionProduceData(index=partition, records=bytes(batch))
        topic = TopicProduceData(name=self.name, partition_data=[row])
        request = ProduceRequest(acks=_ACKS_ALL, timeout_ms=_TIMEOUT_MS, topic_data=[topic])
        answer = self._client().send(request, leader_id)
        result = answer.responses[0].partition_responses[0]
        check(f"seeding {self.name}-{partition}", result.error_code, result.error_message)

    # --- read

    def records(self) -> list[ConsumerRecord]:
        """All records that are there now, partition by partition, in the order of their offsets."""
        return self.records_from(self.offsets(EARLIEST))

    def records_from(self, starts: Mapping[int, int]) -> list[ConsumerRecord]:
        """The records from these offsets on, by partition."""
        leaders = self._leaders()
        ends = self.offsets(LATEST, starts)
        found: list[ConsumerRecord] = []
        for partition in sorted(starts):
            position, end = starts[partition], ends[partition]
            while position < end:
                records, position = self._fetch(partition, leaders[partition], position)
                found += records
        return found

    def tail(self, count: int) -> list[ConsumerRecord]:
        """About the last few records of each partition."""
        first, last = self.offsets(EARLIEST), self.offsets(LATEST)
        return self.records_from(
            {number: max(first[number], end - count) for number, end in last.items()}
        )

    def offsets(
        self, timestamp: int = LATEST, partitions: Iterable[int] | None = None
    ) -> dict[int, int]:
        """The end of each partition, or of some, or its start with EARLIEST."""
        leaders = self._leaders()
        return {
            partition: self._offset(partition, leaders[partition], timestamp)
            for partition in (leaders if partitions is None else sorted(partitions))
        }

    def partition_count(self) -> int:
        """How many partitions the topic has now."""
        return len(self._leaders())

    def _offset(self, partition: int, leader_id: int, timestamp: int) -> int:
        row = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topic = ListOffsetsTopic(name=self.name, partitions=[row])
        answer = self._client().send(ListOffsetsRequest(replica_id=-1, topics=[topic]), leader_id)
        result = answer.topics[0].partitions[0]
        check(f"the offsets of {self.name}-{partition}", result.error_code)
        return int(result.offset)

    def _fetch(
        self, partition: int, leader_id: int, position: int
    ) -> tuple[list[ConsumerRecord], int]:
        answer = self._client().send(_fetch_request(self.name, partition, position), leader_id)
        check(f"reading {self.name}", answer.error_code)
        result = answer.responses[0].partitions[0]
        check(f"reading {self.name}-{partition} at {position}", result.error_code)
        records, after = _decode(self.name, partition, position, bytes(result.records or b""))
        if after == position:
            raise AssertionError(f"{self.name}-{partition} has nothing to read at {position}")
        return records, after

    def _leaders(self) -> dict[int, int]:
        """The leader of each partition; an election is waited for, a topic that is not there is
        not.
        """

        def settled() -> Any:
            row = self._client().metadata([self.name]).topics[0]
            if row.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION:
                return row
            check(f"topic {self.name}", row.error_code)
            has_leaders = all(partition.leader_id >= 0 for partition in row.partitions)
            return row if has_leaders else None

        row = self._wait_for(settled, what=f"leaders of {self.name}")
        check(f"topic {self.name}", row.error_code)
        return {
            partition.partition_index: partition.leader_id
            for partition in sorted(row.partitions, key=lambda found: found.partition_index)
        }

    # --- compare

    def expect(
        self, expected: Sequence[object], *, timeout: float = 5.0, in_order: bool | None = None
    ) -> list[ConsumerRecord]:
        """Fails unless the topic holds, or soon holds, exactly these records; returns them.

        Each may be a value, a pair (key, value), a mapping of the fields that matter, or a
        function. The order counts in a topic of one partition, unless `in_order` says otherwise.
        """
        __tracebackhide__ = True
        expected = _several(expected)
        found: list[ConsumerRecord] = []

        def is_there() -> bool:
            nonlocal found, in_order
            if in_order is None:
                in_order = self.partition_count() == 1
            found = self.records()
            # More than was expected will not become fewer.
            return len(found) > len(expected) or match(expected, found, in_order=in_order)

        with suppress(TimeoutError):
            self._wait_for(is_there, timeout=timeout)
        if not match(expected, found, in_order=bool(in_order)):
            subject = f"topic {self.name}"
            raise AssertionError(difference(subject, expected, found, in_order=bool(in_order)))
        return found


def _fetch_request(name: str, partition: int, position: int) -> Request:
    row = FetchPartition(
        partition=partition,
        fetch_offset=position,
        partition_max_bytes=limits.TESTING_FETCH_BYTES_MAX,
    )
    return FetchRequest(
        max_wait_ms=1_000,
        min_bytes=1,
        max_bytes=limits.TESTING_FETCH_BYTES_MAX,
        topics=[FetchTopic(topic=name, partitions=[row])],
    )


def _decode(
    topic: str, partition: int, position: int, data: bytes
) -> tuple[list[ConsumerRecord], int]:
    """The records from a position on, and the position after them. Markers are not records."""
    found = []
    for batch in iter_batches(data):
        if not batch.is_control:
            records = records_of(topic, partition, iter_records(batch))
            found += [record for record in records if record.offset >= position]
        position = max(position, batch.next_offset)
    return found, position


def _several(records: Iterable[object]) -> Sequence[object]:
    """A text alone is one record, not one per letter, and so are bytes and a mapping."""
    return [records] if isinstance(records, str | bytes | dict) else list(records)


def _fields(record: object) -> dict[str, Any]:
    if record is None or isinstance(record, str | bytes):
        return {"value": record}
    if isinstance(record, ConsumerRecord):
        return {name: getattr(record, name) for name in ("key", "value", "headers", "timestamp_ms")}
    if isinstance(record, tuple) and len(record) == 2:
        return {"key": record[0], "value": record[1]}
    if isinstance(record, dict):
        unknown = record.keys() - {"key", "value", "headers", "partition", "timestamp_ms"}
        if not unknown:
            return record
    raise TypeError(
        f"{record!r} is not a record: give a value, a pair (key, value), or a mapping with key, "
        "value, headers, partition and timestamp_ms"
    )


def _bytes(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes):
        return value
    raise TypeError(f"{value!r} is neither text nor bytes")
