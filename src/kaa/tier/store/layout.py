"""The names of the objects of a segment, as Kafka's LocalTieredStorage names its files:

    <topic>-<partition>-<topic id>/<first offset, 20 digits>-<segment id>.log
                                                                         .index
                                                                         .timeindex
                                                                         .txnindex   if not empty
                                                                         .snapshot
                                                                         .leader_epoch_checkpoint

Ids are written as Kafka prints them, in base64 for URLs. A directory with this layout under
`kafka-tiered-storage` can be served by a JVM broker, and what that broker tiers by Kaa.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.tier.metadata.model import TopicIdPartition
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from kaa.tier.metadata.model import SegmentMetadata

# The folder that Kafka's class makes in the directory it is given.
LOCAL_ROOT: Final = "kafka-tiered-storage"

_FOLDER: Final = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)-([a-zA-Z0-9_-]{22})")
_FILE: Final = re.compile(r"(\d{20})-([a-zA-Z0-9_-]{22})(\.[a-z_]+)")


class Part(Enum):
    """What a segment consists of; values are suffixes."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    LEADER_EPOCHS = ".leader_epoch_checkpoint"


class ObjectName(NamedTuple):
    """What the name of an object says."""

    partition: TopicIdPartition
    start_offset: int
    segment_id: Uuid
    part: Part


def folder(partition: TopicIdPartition) -> str:
    return f"{partition.topic}-{partition.partition}-{partition.topic_id}"


def object_name(segment: SegmentMetadata, part: Part) -> str:
    start = f"{segment.start_offset:020d}"
    return f"{folder(segment.partition)}/{start}-{segment.segment_id}{part.value}"


def parse_name(name: str) -> ObjectName | None:
    """What a name says; None for an object that is not one of a segment."""
    directory, _, file = name.rpartition("/")
    in_folder, in_file = _FOLDER.fullmatch(directory), _FILE.fullmatch(file)
    if in_folder is None or in_file is None:
        return None
    try:
        part = Part(in_file[3])
    except ValueError:
        return None
    partition = TopicIdPartition(Uuid.parse(in_folder[3]), in_folder[1], int(in_folder[2]))
    return ObjectName(partition, int(in_file[1]), Uuid.parse(in_file[2]), part)
