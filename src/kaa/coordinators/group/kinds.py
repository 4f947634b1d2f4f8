"""The kinds of groups that share the offsets topic, and their records.

A group of any kind begins with its first record and ends with the tombstone of its metadata. Which
kind a record belongs to stands in its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.coordinators.group.classic.group import ClassicGroup
from kaa.coordinators.group.classic.records import CLASSIC_RECORD_TYPES
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.records import CONSUMER_RECORDS
from kaa.coordinators.group.offsets.committed import OFFSET_RECORD_TYPES
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.group.share.records import SHARE_RECORDS
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.records import STREAMS_RECORDS
from kaa.coordinators.records import RecordTypes

if TYPE_CHECKING:
    from kaa.coordinators.group.modern.records import ModernRecords
    from kaa.wire.schema import CoordinatorKey

_MODERN: Final = (CONSUMER_RECORDS, SHARE_RECORDS, STREAMS_RECORDS)
_MODERN_BY_KEY: Final[dict[type, ModernRecords[Any, Any]]] = {
    of.key: kind for kind in _MODERN for of in kind.types
}

Group = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

RECORD_TYPES: Final = RecordTypes(
    [
        *OFFSET_RECORD_TYPES,
        *CLASSIC_RECORD_TYPES,
        *(of for kind in _MODERN for of in kind.types),
    ]
)


def modern_records(key: CoordinatorKey) -> ModernRecords[Any, Any] | None:
    """The kind of modern group that a record is of."""
    return _MODERN_BY_KEY.get(type(key))
