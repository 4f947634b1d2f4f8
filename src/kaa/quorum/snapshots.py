"""Metadata snapshots: files that hold the whole state up to an offset (KIP-630).

A snapshot is a run of record batches of magic 2 whose offsets count from 0 and whose leader epoch
is that of the snapshot:

| batches | records |
|---|---|
| one control batch | SnapshotHeader, with the time of the newest record that the snapshot covers |
| | with kraft.version 1 also KRaftVersion and, if known, Voters |
| data batches | one record per metadata record, none without state |
| one control batch | SnapshotFooter |

Names, in the folder of the metadata log, carry the end offset (20 digits) and its epoch (10):

| name | state |
|---|---|
| `00000000000000001234-0000000007.checkpoint` | complete |
| `00000000000000001234-0000000007-<any>.checkpoint.part` | being written |
| `00000000000000001234-0000000007.checkpoint.deleted` | waiting for its readers to finish |

A snapshot becomes one by a rename after its content is on disk, so a file of the first kind is
whole; the reader still checks every checksum and that the footer is there, and a damaged snapshot
is not loaded. `.part` and `.deleted` files found at a start are removed.

`bootstrap.checkpoint` in a log directory has the same content and a name of its own: the records
that the first active controller of a cluster writes.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import METADATA_BATCH_BYTES_MAX, METADATA_SNAPSHOT_BATCH_BYTES
from kaa.log.errors import CorruptFileError
from kaa.log.files import write_atomically
from kaa.quorum.control_records import (
    build_control_records,
    kraft_version_record,
    read_control_records,
    voter_set,
    voters_record,
)
from kaa.quorum.log_view import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch
from kaa.quorum.voters import NO_KRAFT_VERSION
from kaa.records.batch import LOG_OVERHEAD_BYTES, iter_batches
from kaa.records.build import BatchBuilder
from kaa.records.errors import RecordsError
from kaa.records.record import iter_records
from kaa.wire.messages.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.log.files import Files
    from kaa.quorum.voters import VoterSet
    from kaa.records.batch import RecordBatch

SNAPSHOT_SUFFIX = ".checkpoint"
PARTIAL_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".checkpoint.deleted"
BOOTSTRAP_FILE = "bootstrap.checkpoint"

# A batch is closed when it is full: it may have one large record more, and its head.
_BATCH_BYTES_MAX: Final = 2 * METADATA_BATCH_BYTES_MAX

_NAME = re.compile(
    r"(?P<offset>[0-9]{20})-(?P<epoch>[0-9]{10})"
    r"(?:(?P<whole>\.checkpoint)|.*\.checkpoint\.(?P<mark>part|deleted))"
)


class SnapshotName(NamedTuple):
    """A parsed file name; `mark` is "", "part" or "deleted"."""

    id: OffsetAndEpoch
    mark: str


def snapshot_name(snapshot_id: OffsetAndEpoch, suffix: str = SNAPSHOT_SUFFIX) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{suffix}"


def parse_snapshot_name(name: str) -> SnapshotName | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return SnapshotName(
        OffsetAndEpoch(int(match["offset"]), int(match["epoch"])), match["mark"] or ""
    )


class SnapshotContent(NamedTuple):
    """What a snapshot says, apart from its name."""

    last_contained_log_timestamp: int
    kraft_version: int
    voters: VoterSet | None
    # The metadata records, framed; None while the next of them are being read.
    values: Iterable[bytes | None]


def build_snapshot(
    snapshot_id: OffsetAndEpoch,
    values: Iterable[bytes],
    *,
    timestamp: int,
    last_contained_log_timestamp: int,
    kraft_version: int = NO_KRAFT_VERSION,
    voters: VoterSet | None = None,
) -> Iterator[bytearray]:
    """The batches of a snapshot, each of bounded size, so that a caller can pause in between."""
    header: list[SnapshotHeaderRecord | KRaftVersionRecord | VotersRecord] = [
        SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp)
    ]
    if kraft_version > NO_KRAFT_VERSION:
        header.append(kraft_version_record(kraft_version))
        if voters is not None:
            header.append(voters_record(voters))
    epoch = snapshot_id.epoch
    yield build_control_records(header, timestamp=timestamp, base_offset=0, epoch=epoch)
    offset = len(header)
    builder = BatchBuilder(base_offset=offset, partition_leader_epoch=epoch)
    for value in values:
        if builder.record_count and builder.size_in_bytes >= METADATA_SNAPSHOT_BATCH_BYTES:
            yield builder.build()
            offset = builder.last_offset + 1
            builder = BatchBuilder(base_offset=offset, partition_leader_epoch=epoch)
        builder.append(timestamp, None, value)
    if builder.record_count:
        yield builder.build()
        offset = builder.last_offset + 1
    footer = [SnapshotFooterRecord(version=0)]
    yield build_control_records(footer, timestamp=timestamp, base_offset=offset, epoch=epoch)


def load_snapshot(files: Files, path: str) -> SnapshotContent:
    """The content of a snapshot file, all of it checked. CorruptFileError if it is damaged or
    incomplete.
    """
    reader = _Reader(path)
    for batch in _batches(files, path):
        with _naming_damage(path):
            batch.ensure_valid()
            reader.take(batch)
    return reader.finish(SnapshotValues(files, path))


class SnapshotValues:
    """The metadata records of a snapshot file that was checked. While somebody goes through them
    the file is open, and one batch of them is in memory.
    """

    __slots__ = ("_files", "_path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        for values in self.batches():
            yield from values

    def batches(self) -> Iterator[list[bytes]]:
        """The same batch by batch; each is read when it is asked for, in whatever thread."""
        for batch in _batches(self._files, self._path):
            if not batch.is_control:
                with _naming_damage(self._path):
                    values = [record.value or b"" for record in iter_records(batch)]
                yield values


def _batches(files: Files, path: str) -> Iterator[RecordBatch]:
    """The batches of a file, one at a time."""
    file = files.open(path)
    try:
        size = file.size()
        position = 0
        while position < size:
            head = file.read(LOG_OVERHEAD_BYTES, position)
            length = int.from_bytes(head[8:], "big", signed=True) + LOG_OVERHEAD_BYTES
            if len(head) < LOG_OVERHEAD_BYTES or length > min(size - position, _BATCH_BYTES_MAX):
                raise CorruptFileError(path, f"there is no batch at {position}")
            with _naming_damage(path):
                # It refuses a length that is too small for a batch.
                yield from iter_batches(file.read(max(LOG_OVERHEAD_BYTES, length), position))
            position += length
    finally:
        file.close()


@contextmanager
def _naming_damage(path: str) -> Iterator[None]:
    try:
        yield
    except (RecordsError, WireError, ValueError) as error:
        raise CorruptFileError(path, str(error)) from error


class _Reader:
    """Puts what the batches of a snapshot say together, and checks their order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._timestamp: int | None = None
        self._kraft_version = NO_KRAFT_VERSION
        self._voters: VoterSet | None = None
        self._is_complete = False

    def take(self, batch: RecordBatch) -> None:
        if self._is_complete:
            raise CorruptFileError(self._path, "a batch follows the footer")
        if batch.is_control:
            self._take_control(batch)
        elif self._timestamp is None:
            raise CorruptFileError(self._path, "it does not start with a snapshot header")

    def _take_control(self, batch: RecordBatch) -> None:
        for _, message in read_control_records(batch):
            if isinstance(message, SnapshotHeaderRecord):
                self._timestamp = message.last_contained_log_timestamp
            elif isinstance(message, KRaftVersionRecord):
                self._kraft_version = message.kraft_version
            elif isinstance(message, VotersRecord):
                self._voters = voter_set(message)
            elif isinstance(message, SnapshotFooterRecord):
                self._is_complete = True

    def finish(self, values: Iterable[bytes]) -> SnapshotContent:
        if self._timestamp is None or not self._is_complete:
            raise CorruptFileError(self._path, "it has no header or no footer")
        return SnapshotContent(self._timestamp, self._kraft_version, self._voters, values)


def snapshot_timestamp(files: Files, path: str) -> int:
    """The time of the newest record that a snapshot covers, from its header alone."""
    file = files.open(path)
    try:
        size = int.from_bytes(file.read(LOG_OVERHEAD_BYTES, 0)[8:], "big") + LOG_OVERHEAD_BYTES
        content = file.read(min(size, METADATA_BATCH_BYTES_MAX), 0)
    finally:
        file.close()
    for batch in iter_batches(content):
        for _, message in read_control_records(batch):
            if isinstance(message, SnapshotHeaderRecord):
                return message.last_contained_log_timestamp
    raise CorruptFileError(path, "it does not start with a snapshot header")


def write_bootstrap(files: Files, directory: str, values: Iterable[bytes], timestamp: int) -> None:
    """Writes the records that the first active controller of the cluster starts with."""
    batches = build_snapshot(
        BOOTSTRAP_SNAPSHOT_ID, values, timestamp=timestamp, last_contained_log_timestamp=0
    )
    write_atomically(files, f"{directory}/{BOOTSTRAP_FILE}", b"".join(batches))


def read_bootstrap(files: Files, directory: str) -> list[bytes] | None:
    """The framed records of `bootstrap.checkpoint`; None if there is no such file."""
    path = f"{directory}/{BOOTSTRAP_FILE}"
    if not files.exists(path):
        return None
    return [value for value in load_snapshot(files, path).values if value is not None]
