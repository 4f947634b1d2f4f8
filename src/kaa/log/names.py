"""Names of files and folders in a log directory, exactly Kafka's.

A log directory holds one folder per partition and a few files of its own:

| name | what it is |
|---|---|
| `.lock` | held by the running broker |
| `.kafka_cleanshutdown` | present only after a clean stop |
| `meta.properties` | whose directory this is |
| `recovery-point-offset-checkpoint` | below it, a log needs no recovery |
| `log-start-offset-checkpoint` | where logs start that do not start with a segment |
| `replication-offset-checkpoint` | high watermarks |
| `cleaner-offset-checkpoint` | how far compaction has come |
| `<topic>-<partition>/` | a log |
| `<topic>-<partition>.<hex>-delete/` | a deleted one, removed after file.delete.delay.ms |
| `<topic>-<partition>.<hex>-future/` | one that is moving here from another directory |
| `<topic>-<partition>.<hex>-stray/` | one that the cluster does not know |

The hex part is a random 128-bit number; a topic name is cut so that the whole name stays within
255 bytes. Inside a partition folder every file of a segment starts with its base offset in twenty
digits:

| name | what it is |
|---|---|
| `<offset>.log` `.index` `.timeindex` `.txnindex` | a segment and its indexes |
| `<offset>.snapshot` | producer state below that offset |
| `leader-epoch-checkpoint` | where each leader epoch begins |
| `partition.metadata` | the id of the topic |
| `move-cancelled` | directories with void copies of this log (`kaa.log.cancelled_moves`) |
| `<offset>.log.cleaned` `<offset>.log.swap` | being compacted, about to replace its sources |
| `<offset>.log.deleted` | removed, waiting for its readers |
| `<offset>.log.aside` | below the start of its log; for an operator to look at, nobody else does |
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kaa.model.topics import TopicPartition

if TYPE_CHECKING:
    from kaa.wire.primitives import Uuid

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
META_PROPERTIES_FILE = "meta.properties"
RECOVERY_POINT_CHECKPOINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT_FILE = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT_FILE = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT_FILE = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
MOVE_CANCELLED_FILE = "move-cancelled"

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_SUFFIX = ".deleted"
ASIDE_SUFFIX = ".aside"

DELETE_FOLDER_SUFFIX = "-delete"
FUTURE_FOLDER_SUFFIX = "-future"
STRAY_FOLDER_SUFFIX = "-stray"

_FOLDER_NAME_LENGTH_MAX = 255
_LOG_NAME = r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>[0-9]{1,10})"
_FOLDER = re.compile(_LOG_NAME)
_MARKED_FOLDER = re.compile(_LOG_NAME + r"\.[^.]+-(?P<mark>delete|future|stray)")
_OFFSET_DIGITS = 20


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """The offset that a file name starts with; None for files that belong to no offset."""
    digits = name[:_OFFSET_DIGITS]
    if len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit():
        return int(digits)
    return None


def folder_name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def marked_folder_name(partition: TopicPartition, unique: Uuid, mark_suffix: str) -> str:
    suffix = f"-{partition.partition}.{unique.hex()}{mark_suffix}"
    return partition.topic[: _FOLDER_NAME_LENGTH_MAX - len(suffix)] + suffix


class FolderName(NamedTuple):
    """A parsed folder name; `mark` is "", "delete", "future" or "stray"."""

    partition: TopicPartition
    mark: str


def parse_folder_name(name: str) -> FolderName | None:
    """What a folder in a log directory is; None if it is nothing of ours."""
    if match := _MARKED_FOLDER.fullmatch(name):
        return FolderName(TopicPartition(match["topic"], int(match["partition"])), match["mark"])
    if match := _FOLDER.fullmatch(name):
        return FolderName(TopicPartition(match["topic"], int(match["partition"])), "")
    return None
