"""The kinds of groups that share the offsets topic, and their records.

A group of any kind begins with its first record and ends with the tombstone of its metadata. Which
kind a record belongs to stands in its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.coordinators.group.classic.records import CLASSIC_RECORD_TYPES
from kaa.coordinators.group.consumer.group import ConsumerGroup, ConsumerGroupState
from kaa.coordinators.group.consumer.records import CONSUMER_RECORDS
from kaa.coordinators.group.offsets.committed import OFFSET_RECORD_TYPES
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.group.share.records import SHARE_RECORDS
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.records import STREAMS_RECORDS
from kaa.coordinators.records import RecordTypes
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX

if TYPE_CHECKING:
    from collections.abc import Collection

    from kaa.coordinators.group.modern.records import ModernRecords
    from kaa.model.pieces import Pieces
    from kaa.wire.schema import CoordinatorKey

_MODERN: Final = (CONSUMER_RECORDS, SHARE_RECORDS, STREAMS_RECORDS)
_MODERN_BY_KEY: Final[dict[type, ModernRecords[Any, Any]]] = {
    of.key: kind for kind in _MODERN for of in kind.types
}

Group = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

# In lower case, as filters are compared.
GROUP_KINDS: Final = frozenset(
    {ClassicGroup.kind, ConsumerGroup.kind, ShareGroup.kind, StreamsGroup.kind}
)
# Those of share and streams groups are among them, but for one.
GROUP_STATES: Final = frozenset(
    {state.value.lower() for states in (ClassicGroupState, ConsumerGroupState) for state in states}
    | {"notready"}
)

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


def known_names(names: Collection[str], known: frozenset[str]) -> Pieces[set[str] | None]:
    """Those that a filter asks for among the known ones; None for a filter that asks for all."""
    found: set[str] = set()
    for count, name in enumerate(names, 1):
        folded = name.strip().lower()
        if folded in known:
            found.add(folded)
        if count % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
    return found if names else None
