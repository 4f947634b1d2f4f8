"""The record that a consumer gives: by `poll`, by iteration, and to tests (`kaa.testing`)."""

from __future__ import annotations

from itertools import repeat
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.serialization import Serde
    from kaa.records.record import Header


class ConsumerRecord(NamedTuple):
    """A record with the partition it came from.

    `key` and `value` are bytes or None, or what the deserializers of the consumer made of them.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[Header, ...] = ()
    # The number that an idempotent producer gave it; -1 if it has none.
    sequence: int = -1

    @property
    def timestamp(self) -> int:
        """`timestamp_ms`, as other clients name it."""
        return self.timestamp_ms


def records_of(topic: str, partition: int, rows: Iterable[tuple[Any, ...]]) -> list[ConsumerRecord]:
    """Records of a partition from what a batch holds: offset, timestamp, key, value, headers,
    sequence.

    Written so that the loop runs inside the interpreter: it is passed for every record.
    """
    place = (topic, partition)
    return list(map(tuple.__new__, repeat(ConsumerRecord), map(add, repeat(place), rows)))


def deserialized(record: ConsumerRecord, key: Serde | None, value: Serde | None) -> ConsumerRecord:
    """The record with what the functions make of its key and value; None stays None."""
    found: dict[str, Any] = {}
    if key is not None and record.key is not None:
        found["key"] = key(record.key, record.topic, record.headers)
    if value is not None and record.value is not None:
        found["value"] = value(record.value, record.topic, record.headers)
    return record._replace(**found)
