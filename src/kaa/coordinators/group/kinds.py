"""The kinds of groups that share the offsets topic, and their records.

A group of any kind begins with its first record and ends with the tombstone of its metadata. Which
kind a record belongs to stands in its type, so the table is a list of tables, one for each kind,
and replay asks the kinds in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.classic.group import ClassicGroup
from kaa.coordinators.group.classic.records import CLASSIC_RECORD_TYPES, replay_classic
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.replay import CONSUMER_RECORD_TYPES, replay_consumer
from kaa.coordinators.group.offsets.committed import OFFSET_RECORD_TYPES
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.group.share.records import SHARE_RECORD_TYPES, replay_share
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.records import STREAMS_RECORD_TYPES, replay_streams
from kaa.coordinators.records import RecordTypes

if TYPE_CHECKING:
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue

Group = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

RECORD_TYPES: Final = RecordTypes(
    [
        *OFFSET_RECORD_TYPES,
        *CLASSIC_RECORD_TYPES,
        *CONSUMER_RECORD_TYPES,
        *SHARE_RECORD_TYPES,
        *STREAMS_RECORD_TYPES,
    ]
)


def replay_group(
    groups: TimelineDict[str, Group],
    timeline: Timeline,
    key: CoordinatorKey,
    value: CoordinatorValue | None,
) -> bool:
    """Puts a record of a group into memory; False if it is that of an offset."""
    return (
        replay_classic(groups, key, value)
        or replay_consumer(groups, timeline, key, value)
        or replay_share(groups, timeline, key, value)
        or replay_streams(groups, timeline, key, value)
    )
