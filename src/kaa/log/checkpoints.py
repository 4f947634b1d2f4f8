"""Checkpoint files: small tables of text, replaced as a whole.

| line | content |
|---|---|
| 1 | version, always 0 |
| 2 | number of entries |
| 3... | one entry per line, fields separated by white space |

Two kinds share the frame: offset checkpoints of a log directory (`topic partition offset`:
recovery points, log start offsets, high watermarks, cleaner progress) and the leader-epoch
checkpoint of a partition (`epoch start-offset`). A file of no bytes is an empty table: Kafka
creates them so. Anything else that breaks the frame is corrupt; readers of offset checkpoints then
behave as without the file, which costs time (a longer recovery) but never data.

Writing goes through `write_atomically`, so a crash leaves the old or the new table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import CHECKPOINT_FILE_BYTES_MAX
from kaa.log.errors import CorruptFileError
from kaa.log.files import read_whole
from kaa.model.topics import TopicPartition
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.log.files import Files

_VERSION = 0
_OFFSET_MAX = 2**63 - 1


def encode_checkpoint(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in (_VERSION, len(lines), *lines)).encode()


def decode_checkpoint(path: str, content: bytes, fields: int) -> list[list[str]]:
    """The entries, each of `fields` words. Raises CorruptFileError."""
    if not content:
        return []
    if len(content) > CHECKPOINT_FILE_BYTES_MAX:
        raise CorruptFileError(path, f"{len(content)} bytes is not a checkpoint")
    try:
        lines = content.decode().splitlines()
        version, count = int(lines[0]), int(lines[1])
    except (ValueError, IndexError):
        raise CorruptFileError(path, "does not start with a version and a count") from None
    if version != _VERSION:
        raise CorruptFileError(path, f"version {version} is not {_VERSION}")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != count:
        raise CorruptFileError(
            path, f"{count_text(len(entries), 'entry')} where it announces {count}"
        )
    for entry in entries:
        if len(entry) != fields:
            raise CorruptFileError(
                path, f"an entry has {count_text(len(entry), 'field')}, not {fields}"
            )
    return entries


def read_offset_checkpoint(files: Files, path: str) -> dict[TopicPartition, int]:
    """The table of an offset checkpoint; empty if there is no file."""
    try:
        content = read_whole(files, path)
    except FileNotFoundError:
        return {}
    table: dict[TopicPartition, int] = {}
    for topic, partition, offset in decode_checkpoint(path, content, 3):
        try:
            key, number = TopicPartition(topic, int(partition)), int(offset)
        except ValueError:
            raise CorruptFileError(path, "an entry is not topic, partition, offset") from None
        if not 0 <= number <= _OFFSET_MAX:
            raise CorruptFileError(path, f"an entry has {number} as its offset")
        table[key] = number
    return table


def encode_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode_checkpoint(
        f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items()
    )
