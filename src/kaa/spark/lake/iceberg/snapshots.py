"""Snapshots of Iceberg tables, with manifests that we write ourselves.

Pyiceberg makes snapshots of data files alone. Ours may have files with deleted positions, and may
*replace* files: change them and no rows, which streams of other engines skip, whereas an
*overwrite* ends them. What is written for a snapshot:

- a manifest of data: every added data file, status ADDED.
- a manifest of deletes: every added file with deleted positions, status ADDED.
- manifests written again: those that name a removed file, without it: the others EXISTING, with the
  sequence numbers they had.
- a manifest of what went: every removed file, status DELETED; the next snapshot leaves it out.
- the list of manifests: these, and all others of the parent that name a file that is left.

Added files leave their sequence number to be inherited from the snapshot, as Iceberg wants it, so
that a position is deleted from this snapshot on and not before. Sequence numbers order deletes and
data: a manifest that is written again must keep them.

Nothing is changed by staging; `together` makes a staged snapshot current.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.manifest import (
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table import TableProperties
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from kaa.spark.lake.iceberg.together import DeleteManifestWriter, Staged
from kaa.spark.lake.table import ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_DELETES_FORMAT_MIN: Final = 2


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """What a snapshot changes: pyiceberg's files, and paths of removed ones."""

    operation: str
    added: Sequence[Any] = ()
    added_deletes: Sequence[Any] = ()
    removed: frozenset[str] = frozenset()
    removed_deletes: frozenset[str] = frozenset()
    # Of the summary.
    properties: Mapping[str, str] = field(default_factory=dict)


def stage(
    table: Any,
    change: SnapshotChange,
    table_properties: Callable[[int, int], Mapping[str, str]] = lambda *_: {},
) -> Staged:
    """A snapshot on top of the current one.

    `table_properties` are set together with it, by its id and sequence number. Raises ConflictError
    if the current snapshot lacks a file that is to be removed.
    """
    work = _Staging(table)
    try:
        return work.stage(change, table_properties)
    except BaseException:
        work.discard()
        raise


def stage_manifests(table: Any) -> Staged | None:
    """The same files in few manifests; None if there is nothing to gain."""
    work = _Staging(table)
    try:
        return work.stage_manifests()
    except BaseException:
        work.discard()
        raise


class _Staging:
    """One snapshot that is being written."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._metadata = table.metadata
        self._parent = table.metadata.current_snapshot()
        self._id: int = table.metadata.new_snapshot_id()
        self._sequence: int = table.metadata.next_sequence_number()
        self._uuid = uuid.uuid4()
        self._paths: list[str] = []
        self._codec = table.metadata.properties.get(
            TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        )

    def stage(
        self, change: SnapshotChange, table_properties: Callable[[int, int], Mapping[str, str]]
    ) -> Staged:
        manifests = []
        for content, files in (
            (ManifestContent.DATA, change.added),
            (ManifestContent.DELETES, change.added_deletes),
        ):
            if files:
                entries = [self._entry(ManifestEntryStatus.ADDED, one) for one in files]
                spec = self._metadata.default_spec_id
                manifests.append(self._write(content, spec, entries))
        kept, removed = self._existing(change)
        summary = self._summary(change, removed)
        properties = table_properties(self._id, self._sequence)
        return self._staged([*manifests, *kept], summary, properties)

    def _existing(self, change: SnapshotChange) -> tuple[list[Any], list[Any]]:
        """The manifests of the parent without removed files, and these."""
        kept: list[Any] = []
        gone: dict[tuple[Any, int], list[Any]] = {}
        missing = {
            ManifestContent.DATA: set(change.removed),
            ManifestContent.DELETES: set(change.removed_deletes),
        }
        for manifest in self._manifests():
            wanted = missing[manifest.content]
            entries = self._entries(manifest) if wanted else []
            found = [one for one in entries if one.data_file.file_path in wanted]
            if not found:
                kept.append(manifest)
                continue
            left = [
                _with_status(one, ManifestEntryStatus.EXISTING)
                for one in entries
                if one.data_file.file_path not in wanted
            ]
            if left:
                kept.append(self._write(manifest.content, manifest.partition_spec_id, left))
            kind = (manifest.content, manifest.partition_spec_id)
            gone.setdefault(kind, []).extend(found)
            wanted.difference_update(one.data_file.file_path for one in found)
        lost = sorted(set().union(*missing.values()))
        if lost:
            raise ConflictError(f"{lost[0]} no longer belongs to the table")
        for kind, entries in gone.items():
            deleted = [_with_status(one, ManifestEntryStatus.DELETED, self._id) for one in entries]
            kept.append(self._write(*kind, deleted))
        return kept, [one.data_file for entries in gone.values() for one in entries]

    def stage_manifests(self) -> Staged | None:
        target = int(
            self._metadata.properties.get(
                TableProperties.MANIFEST_TARGET_SIZE_BYTES,
                TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
            )
        )
        groups: dict[tuple[Any, int], list[list[Any]]] = {}
        for manifest in self._manifests():
            kind = (manifest.content, manifest.partition_spec_id)
            packs = groups.setdefault(kind, [[]])
            size = sum(one.manifest_length for one in packs[-1])
            if packs[-1] and size + manifest.manifest_length > target:
                packs.append([])
            packs[-1].append(manifest)
        if all(len(pack) < 2 for packs in groups.values() for pack in packs):
            return None
        kept = [
            pack[0] if len(pack) == 1 else self._together(*kind, pack)
            for kind, packs in groups.items()
            for pack in packs
        ]
        change = SnapshotChange(Operation.REPLACE.value)
        return self._staged(kept, self._summary(change, []), {})

    def _together(self, content: ManifestContent, spec: int, manifests: list[Any]) -> Any:
        entries = [
            _with_status(entry, ManifestEntryStatus.EXISTING)
            for manifest in manifests
            for entry in self._entries(manifest)
        ]
        entries.sort(key=lambda one: (repr(one.data_file.partition), one.data_file.file_path))
        return self._write(content, spec, entries)

    def _manifests(self) -> list[Any]:
        """Those of the parent that name a file which is left."""
        if self._parent is None:
            return []
        return [
            one
            for one in self._parent.manifests(self._table.io)
            if one.has_added_files() or one.has_existing_files()
        ]

    def _entries(self, manifest: Any) -> list[Any]:
        return list(manifest.fetch_manifest_entry(self._table.io, discard_deleted=True))

    def _entry(self, status: ManifestEntryStatus, file: Any) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=self._id,
            sequence_number=None,
            file_sequence_number=None,
            data_file=file,
        )

    def _write(self, content: ManifestContent, spec_id: int, entries: Sequence[Any]) -> Any:
        version = self._metadata.format_version
        spec, schema = self._metadata.specs()[spec_id], self._metadata.schema()
        output = self._output(f"{self._uuid}-m{len(self._paths)}.avro")
        if content == ManifestContent.DATA:
            opened: Any = write_manifest(version, spec, schema, output, self._id, self._codec)
        else:
            assert version >= _DELETES_FORMAT_MIN, "format 1 has no deletes"
            opened = DeleteManifestWriter(spec, schema, output, self._id, self._codec)
        with opened as writer:
            for one in entries:
                writer.add_entry(one)
        return writer.to_manifest_file()

    def _output(self, name: str) -> Any:
        path = self._table.location_provider().new_metadata_location(name)
        self._paths.append(path)
        return self._table.io.new_output(path)

    def _summary(self, change: SnapshotChange, removed: Sequence[Any]) -> Summary:
        collector = SnapshotSummaryCollector()
        schema, specs = self._metadata.schema(), self._metadata.specs()
        for one in (*change.added, *change.added_deletes):
            collector.add_file(one, schema, specs[self._metadata.default_spec_id])
        for one in removed:
            collector.remove_file(one, schema, specs[one.spec_id])
        # Pyiceberg sums up the other operations alone, by the same rule.
        operation = Operation(change.operation)
        named = Operation.OVERWRITE if operation is Operation.REPLACE else operation
        summary = update_snapshot_summaries(
            Summary(operation=named, **collector.build(), **change.properties),
            None if self._parent is None else self._parent.summary,
        )
        return Summary(operation=operation, **summary.additional_properties)

    def _staged(
        self, manifests: list[Any], summary: Summary, properties: Mapping[str, str]
    ) -> Staged:
        parent_id = None if self._parent is None else self._parent.snapshot_id
        output = self._output(f"snap-{self._id}-0-{self._uuid}.avro")
        with write_manifest_list(
            self._metadata.format_version,
            output,
            self._id,
            parent_id,
            self._sequence,
            self._codec,
        ) as writer:
            writer.add_manifests(manifests)
        snapshot = Snapshot(
            **{
                "snapshot-id": self._id,
                "parent-snapshot-id": parent_id,
                "manifest-list": output.location,
                "sequence-number": self._sequence,
                "schema-id": self._metadata.current_schema_id,
            },
            summary=summary,
        )
        named: dict[str, Any] = {"ref-name": MAIN_BRANCH, "snapshot-id": self._id}
        updates: list[Any] = [
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(**named, type=SnapshotRefType.BRANCH),
        ]
        if properties:
            updates.append(SetPropertiesUpdate(updates=dict(properties)))
        main = self._metadata.refs.get(MAIN_BRANCH)
        head: dict[str, Any] = {"snapshot-id": None if main is None else main.snapshot_id}
        same = AssertRefSnapshotId(ref=MAIN_BRANCH, **head)
        return Staged(self._table, tuple(updates), (same,), self._id, tuple(self._paths))

    def discard(self) -> None:
        Staged(self._table, (), (), self._id, tuple(self._paths)).discard()


def _with_status(entry: Any, status: ManifestEntryStatus, snapshot_id: int | None = None) -> Any:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=entry.snapshot_id if snapshot_id is None else snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )
