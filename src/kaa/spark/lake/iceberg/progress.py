"""How far a table is, in one property that outlives every snapshot: `kaa.progress`.

Other engines expire snapshots, and what summaries say goes with them. So the offsets are kept as a
property of the table, which is set by the commit that adds the rows:

    {
        "version": 1,
        "snapshot": 4711,
        "sequence": 12,
        "commit": "5c1…",
        "topic": "Fh2…",
        "mode": "append",
        "offsets": "eNpj…",
    }

The offsets are pairs of variable-length integers, the distance from the partition before and the
next offset, compressed and in base64: some 8 bytes for each partition. The summary of the snapshot
has no more than the commit id and a digest.

*Lineage.* Offsets are true for the rows of one snapshot and of what came after it. An operator who
rolls the table back takes rows away and leaves the property. That shows when one goes from the head
to its ancestors. A snapshot that the table still has must be among them. Where it has been expired,
and the way is cut short, all of them must have a higher sequence number.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROPERTY: Final = "kaa.progress"
_VERSION: Final = 1


class Ancestor(NamedTuple):
    """A snapshot on the way from the head backwards."""

    snapshot_id: int
    sequence_number: int


@dataclass(frozen=True, slots=True)
class TableProgress:
    """What the property says."""

    snapshot_id: int
    sequence_number: int
    commit_id: str
    topic_id: str | None
    mode: str
    offsets: Mapping[int, int]

    def write(self) -> str:
        """The text of the property."""
        return json.dumps(
            {
                "version": _VERSION,
                "snapshot": self.snapshot_id,
                "sequence": self.sequence_number,
                "commit": self.commit_id,
                "topic": self.topic_id,
                "mode": self.mode,
                "offsets": packed(self.offsets),
            }
        )

    def is_true_for(self, lineage: Sequence[Ancestor], *, exists: bool) -> bool:
        """Whether the rows of the head go up to the offsets.

        `lineage` is newest first; `exists` says whether the table still has the snapshot, on
        whatever branch.
        """
        if any(one.snapshot_id == self.snapshot_id for one in lineage):
            return True
        is_newer = all(one.sequence_number > self.sequence_number for one in lineage)
        return bool(lineage) and is_newer and not exists


def read_progress(text: str) -> TableProgress:
    """Reads the property; raises ValueError."""
    try:
        found = json.loads(text)
        version = found["version"]
        if version == _VERSION:
            return TableProgress(
                found["snapshot"],
                found["sequence"],
                found["commit"],
                found["topic"],
                found["mode"],
                unpacked(found["offsets"]),
            )
    except (KeyError, TypeError, binascii.Error, zlib.error) as error:
        raise ValueError(f"{PROPERTY} cannot be read: {error}") from error
    raise ValueError(f"{PROPERTY} has version {version}, which a newer Kaa wrote")


def digest(offsets: Mapping[int, int]) -> str:
    """A short sum of offsets, for summaries."""
    return hashlib.sha256(packed(offsets).encode()).hexdigest()[:16]


def packed(offsets: Mapping[int, int]) -> str:
    """Offsets as text."""
    data, before = bytearray(), 0
    for partition, offset in sorted(offsets.items()):
        _append_varint(data, partition - before)
        _append_varint(data, offset)
        before = partition
    return base64.urlsafe_b64encode(zlib.compress(bytes(data), 9)).decode()


def unpacked(text: str) -> dict[int, int]:
    """The offsets of a text."""
    numbers = _varints(zlib.decompress(base64.urlsafe_b64decode(text)))
    offsets: dict[int, int] = {}
    partition = 0
    for distance, offset in zip(numbers[::2], numbers[1::2], strict=True):
        partition += distance
        offsets[partition] = offset
    return offsets


def _append_varint(data: bytearray, number: int) -> None:
    assert number >= 0, "offsets and partitions are counted from 0"
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)


def _varints(data: bytes) -> list[int]:
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number, shift = 0, 0
    return numbers
