"""One table of an Iceberg catalog: its state, files, columns and commits.

How far a table is stands in the property `kaa.progress`, which every commit of records sets
together with its rows (`progress` says how); the summary of its snapshot has

| property | meaning |
|---|---|
| kaa.commit-id | who committed; a committer recognises its own after a lost answer |
| kaa.digest | a sum of the offsets |

Maintenance and other engines commit without it, and the progress stays true. The version of the
table is the id of its current snapshot: the catalog takes a commit only if that has not changed.
pyiceberg's own retries are switched off, since they would add files of a round again on top of
another committer's.

Tables of format 3 and tables with equality deletes, both of which other engines can make, are
refused by name; positions that others deleted are left out of whatever is read.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
from pyiceberg.table.snapshots import Operation

from kaa.spark.formats.untyped import pa
from kaa.spark.lake.files import iceberg_reader
from kaa.spark.lake.iceberg import progress, snapshots
from kaa.spark.lake.iceberg.columns import (
    FIELDS,
    all_fields,
    arrow_field,
    fits,
    known_fields,
    sources,
    wanted_name,
)
from kaa.spark.lake.iceberg.files import data_file, delete_file
from kaa.spark.lake.iceberg.progress import Ancestor, TableProgress, read_progress
from kaa.spark.lake.iceberg.spec import part_of, terms_of, transform_of
from kaa.spark.lake.iceberg.together import first_line, no_answer
from kaa.spark.lake.increments import Version
from kaa.spark.lake.owned import VERSION_PROPERTY, to_properties
from kaa.spark.lake.partitioning import check_terms
from kaa.spark.lake.table import (
    ConflictError,
    DataFileInfo,
    LakeError,
    NoTableError,
    StaleRoundError,
    TableAwayError,
    TableState,
    UnknownOutcomeError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaa.spark.formats.untyped import Schema
    from kaa.spark.lake.files import IcebergReader
    from kaa.spark.lake.iceberg.together import Staged
    from kaa.spark.lake.partitioning import Term
    from kaa.spark.lake.store import Store
    from kaa.spark.lake.table import TableCommit, WrittenFile

COMMIT_ID: Final = "kaa.commit-id"
DIGEST: Final = "kaa.digest"
_NO_VERSION: Final = "none"
_FORMAT_VERSION_MAX: Final = 2
_TOTALS: Final = ("total-data-files", "total-delete-files")
_PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class Named(NamedTuple):
    """Files that metadata names itself, and the manifests that name the others."""

    paths: set[str]
    manifests: list[Any]
    # What they are read with.
    io: Any


class IcebergTable:
    """One table of a catalog.

    Each look asks the catalog, and reads all metadata of the table. What belongs together takes
    `known`, the table as one look has found it: it is faster, and of one moment.
    """

    def __init__(self, catalog: Any, namespace: str, name: str, store: Store) -> None:
        self._catalog = catalog
        self._namespace = namespace
        self._identifier = (namespace, name)
        self._store = store
        self._loaded: Any = None

    @property
    def handle(self) -> Any:
        """Pyiceberg's table as it is now."""
        with self._asking():
            self._loaded = self._catalog.load_table(self._identifier)
        return self._loaded

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Around what asks the catalog or the store; errors say which table was meant."""
        name = ".".join(self._identifier)
        try:
            yield
        except NoSuchTableError as error:
            raise NoTableError(f"there is no table {name}") from error
        except CommitFailedException as error:
            raise ConflictError(f"{name}: {error}") from error
        except no_answer() as error:
            raise TableAwayError(f"{name}: {first_line(error)}") from error

    def exists(self) -> bool:
        """Whether the catalog has it."""
        with self._asking():
            return bool(self._catalog.table_exists(self._identifier))

    def ensure(self, schema: Schema, terms: tuple[Term, ...], properties: Mapping[str, str]) -> Any:
        """Pyiceberg's table, which is created if it is not there; several may try at once."""
        with self._asking():
            try:
                return self._with_properties(self.handle, properties)
            except NoTableError:
                self._create(schema, terms, properties)
        return self.handle

    def _create(
        self, schema: Schema, terms: tuple[Term, ...], properties: Mapping[str, str]
    ) -> None:
        check_terms(terms, schema)
        with contextlib.suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(self._namespace)
        try:
            with self._catalog.create_table_transaction(
                self._identifier, schema=schema, properties={**_PROPERTIES, **properties}
            ) as transaction:
                if terms:
                    with transaction.update_spec() as spec:
                        for term in terms:
                            spec.add_field(term.column, transform_of(term), term.name)
        except (TableAlreadyExistsError, CommitFailedException):
            # Somebody else made it; load_table tells if that is not so.
            self._catalog.load_table(self._identifier)

    def _with_properties(self, table: Any, properties: Mapping[str, str]) -> Any:
        """A table that another engine made gets what ours have."""
        self._check_format(table)
        wanted: dict[str, str] = {}
        if table.properties.get("commit.retry.num-retries") != "0":
            wanted["commit.retry.num-retries"] = "0"
        if properties and VERSION_PROPERTY not in table.properties:
            wanted |= properties
        if not wanted:
            return table
        with table.transaction() as transaction:
            transaction.set_properties(wanted)
        return self.handle

    def _check_format(self, table: Any) -> None:
        found = table.metadata.format_version
        if found > _FORMAT_VERSION_MAX:
            raise LakeError(
                f"{'.'.join(self._identifier)} has format version {found}, which another engine "
                f"made; up to {_FORMAT_VERSION_MAX} is known here"
            )

    def alter(self, settings: Mapping[str, str], terms: tuple[Term, ...] | None) -> None:
        """Keeps other settings, and divides new files by other terms, if there are any given."""
        table = self.handle
        with self._asking(), table.transaction() as transaction:
            if terms is not None:
                now = terms_of(table)
                with transaction.update_spec() as spec:
                    for term in now:
                        if term not in terms:
                            spec.remove_field(term.name)
                    for term in terms:
                        if term not in now:
                            spec.add_field(term.column, transform_of(term), term.name)
            transaction.set_properties(to_properties(settings))

    # --- state

    def state(self, topic: str | None = None, known: Any = None) -> TableState:
        """How far the table is, or was when it was last asked for; a problem is named in it.

        A table without a topic may have rows of nameless writes, and no progress yet.
        """
        table = self.handle if known is None else known
        version, name = _version(table), ".".join(self._identifier)
        head = table.current_snapshot()
        text = table.properties.get(progress.PROPERTY)
        advice = "write to another table"
        if topic is not None:
            advice = (
                f"say where to go on: kaa lake resume {topic} --from rows, which looks at the "
                """rows, or --from '{"0": 12}', earliest or latest"""
            )
        if text is None:
            problem = f"{name} has rows, and nothing says up to which offsets; {advice}"
            is_new = topic is None or head is None or _total_rows(head) == 0
            return TableState(version, {}, "", None, problem=None if is_new else problem)
        try:
            found = read_progress(text)
        except ValueError as error:
            raise LakeError(f"{name}: {error}") from error
        snapshot = table.snapshot_by_id(found.snapshot_id)
        is_true = found.is_true_for(_lineage(table), exists=snapshot is not None)
        problem = (
            f"{name} was rolled back: its offsets are those of snapshot {found.snapshot_id}, which "
            f"the current one does not come from; {advice}"
        )
        return TableState(
            version,
            found.offsets,
            found.commit_id,
            found.topic_id,
            None if snapshot is None else snapshot.timestamp_ms,
            found.mode,
            problem=None if is_true else problem,
        )

    def history(self) -> list[TableState]:
        """The snapshots that the current one came from, oldest first, itself last."""
        table = self.handle
        named = {one.snapshot_id for one in table.metadata.refs.values()}
        return [
            TableState(
                str(one.snapshot_id),
                {},
                (one.summary or {}).get(COMMIT_ID) or "",
                None,
                one.timestamp_ms,
                is_named=one.snapshot_id in named,
            )
            for one in reversed(list(_newest_first(table)))
        ]

    def known_offsets(self) -> list[TableState]:
        """Those of which an earlier metadata file that is still there has the progress."""
        from pyiceberg.serializers import FromInputFile

        table = self.handle
        texts = [table.properties.get(progress.PROPERTY)]
        for entry in reversed(table.metadata.metadata_log):
            with contextlib.suppress(OSError):
                before = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
                texts.append(before.properties.get(progress.PROPERTY))
        found = [read_progress(text) for text in dict.fromkeys(texts) if text is not None]
        offsets = {str(one.snapshot_id): one for one in found}
        return [
            replace(one, offsets=offsets[one.version].offsets, mode=offsets[one.version].mode)
            for one in self.history()
            if one.version in offsets
        ]

    def files(self, version: str | None = None) -> list[DataFileInfo]:
        """The data files of a version, or of the newest one."""
        table = self.handle
        self._check_format(table)
        if version == _NO_VERSION or (version is None and table.current_snapshot() is None):
            return []
        scan = table.scan(snapshot_id=None if version is None else int(version))
        try:
            with self._asking():
                tasks = list(scan.plan_files())
        except ValueError as error:
            if "equality deletes" not in str(error):
                raise
            raise LakeError(
                f"{'.'.join(self._identifier)} has equality deletes, which another engine wrote "
                "and which cannot be read here; let that engine rewrite the data files"
            ) from error
        spec_id = table.metadata.default_spec_id
        return [_info(one.file, tuple(one.delete_files), spec_id) for one in tasks]

    # --- snapshots, for streams and for reads of earlier ones

    def lineage(self) -> list[Version]:
        """The snapshots that the current one came from, oldest first, itself last."""
        found = [
            Version(
                str(one.snapshot_id),
                "append" if one.summary is None else one.summary.operation.value,
            )
            for one in _newest_first(self.handle)
        ]
        return found[::-1]

    def whole(self, snapshot: str) -> list[DataFileInfo]:
        """All files of a snapshot."""
        return self.files(snapshot)

    def added(self, snapshot: str) -> list[DataFileInfo]:
        """The data files that a snapshot added."""
        table = self.handle
        found = table.snapshot_by_id(int(snapshot))
        manifests = [] if found is None else found.manifests(table.io)
        spec_id = table.metadata.default_spec_id
        return [
            _info(entry.data_file, (), spec_id)
            for manifest in manifests
            if manifest.added_snapshot_id == int(snapshot)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            if entry.status == ManifestEntryStatus.ADDED
            and entry.data_file.content == DataFileContent.DATA
        ]

    def knows(self, version: str) -> bool:
        """Whether there is such a snapshot, wherever it came from."""
        return version.isdecimal() and self.handle.snapshot_by_id(int(version)) is not None

    def version_of(self, kind: str, name: str) -> str:
        """The snapshot that a branch or a tag names, that has an id, or that was current at a
        time: milliseconds since 1970, or as ISO 8601 says it.
        """
        table = self.handle
        if kind in {"branch", "tag"}:
            ref = table.metadata.refs.get(name)
            if ref is None or ref.snapshot_ref_type.value != kind:
                raise LakeError(f"{'.'.join(self._identifier)} has no {kind} {name}")
            return str(ref.snapshot_id)
        if kind == "snapshotId":
            if not name.isdecimal() or table.snapshot_by_id(int(name)) is None:
                raise LakeError(f"{'.'.join(self._identifier)} has no snapshot {name}")
            return name
        moment = _milliseconds(name)
        before = [one for one in table.metadata.snapshot_log if one.timestamp_ms <= moment]
        if not before:
            raise LakeError(f"{'.'.join(self._identifier)} had no snapshot yet at {name}")
        return str(max(before, key=lambda one: one.timestamp_ms).snapshot_id)

    def reader(self) -> IcebergReader:
        """What tasks read its files with."""
        return iceberg_reader(self.handle)

    @property
    def store(self) -> Store:
        """The folder of the table."""
        return self._store.at(self.handle.location())

    def named_by_metadata(self) -> Named:
        """Every file that the metadata names itself: metadata, statistics, lists, manifests; and
        the manifests of all snapshots, each once, which name the others.
        """
        table = self.handle
        metadata = table.metadata
        named = {table.metadata_location}
        named |= {one.metadata_file for one in metadata.metadata_log}
        for some in (metadata.statistics, metadata.partition_statistics):
            named |= {one.statistics_path for one in some}
        named |= {one.manifest_list for one in metadata.snapshots}
        manifests = {
            one.manifest_path: one
            for snapshot in metadata.snapshots
            for one in snapshot.manifests(table.io)
        }
        return Named(named | manifests.keys(), list(manifests.values()), table.io)

    def count_files(self) -> tuple[int, int]:
        """How many data files and files with deletes the newest snapshot has, as it says."""
        snapshot = self.handle.current_snapshot()
        summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary
        return tuple(int(summary.get(one) or 0) for one in _TOTALS)  # type: ignore[return-value]

    def count_manifests(self) -> int:
        """How many the newest snapshot has."""
        table = self.handle
        snapshot = table.current_snapshot()
        return 0 if snapshot is None else len(snapshot.manifests(table.io))

    def forget(self, snapshots: Sequence[int]) -> int:
        """Forgets snapshots, as far as they are there and no branch or tag names them."""
        table = self.handle
        named = {one.snapshot_id for one in table.metadata.refs.values()}
        known = {one.snapshot_id for one in table.metadata.snapshots} - named
        wanted = [one for one in snapshots if one in known]
        if wanted:
            with self._asking():
                table.maintenance.expire_snapshots().by_ids(wanted).commit()
        return len(wanted)

    # --- columns

    def evolve(self, schema: Schema) -> Any:
        """Adds columns and widens types; a change that cannot be made is left out.

        Returns pyiceberg's table as it is then.
        """
        table = self.handle
        with self._asking():
            self._evolve(table, schema)
            self._keep_fields(table, schema.names)
        return table

    def _evolve(self, table: Any, schema: Schema) -> None:
        fields = known_fields(table.properties)
        for one in schema:
            name = wanted_name(table.schema(), fields, one.name)
            if name is None or fits(table.schema(), one.with_name(name)):
                continue
            try:
                with table.update_schema() as update:
                    update.union_by_name(pa.schema([one.with_name(name)]))
            except Exception as error:
                # Not for want of an answer: rows would be written without the column.
                if isinstance(error, (CommitFailedException, *no_answer())):
                    raise
                # The name of what pyiceberg raises here differs from rule to rule.
                if type(error).__module__.startswith("pyiceberg") or isinstance(error, ValueError):
                    continue
                raise

    def _keep_fields(self, table: Any, names: Sequence[str]) -> None:
        fields = all_fields(table.schema(), table.properties, names)
        if fields != known_fields(table.properties):
            with table.transaction() as transaction:
                transaction.set_properties({FIELDS: json.dumps(fields)})

    def sources(self, known: Any = None) -> dict[str, str]:
        """What records call those columns that have another name."""
        table = self.handle if known is None else known
        return sources(table.schema(), known_fields(table.properties))

    def write_schema(self, known: Any = None) -> Schema:
        """The columns of the table with their field ids."""
        table = self.handle if known is None else known
        return pa.schema([arrow_field(one) for one in table.schema().fields])

    # --- commits

    def stage(
        self,
        version: str,
        commit: TableCommit,
        files: Sequence[WrittenFile],
        removed: Sequence[DataFileInfo] = (),
    ) -> Staged:
        """One snapshot that the catalog does not know yet, if the table is at the version."""
        table = self._loaded if _version_or_none(self._loaded) == version else self.handle
        self._loaded = None
        if _version(table) != version:
            raise ConflictError(version)
        if any(one.spec != table.metadata.default_spec_id for one in files if one.part):
            raise StaleRoundError("the partitioning of the table was changed meanwhile")
        change = _change(table, commit, files, removed)

        def properties(snapshot_id: int, sequence_number: int) -> dict[str, str]:
            if commit.offsets is None:
                return {}
            now = TableProgress(
                snapshot_id,
                sequence_number,
                commit.commit_id,
                commit.topic_id,
                commit.mode,
                commit.offsets,
            )
            return {progress.PROPERTY: now.write()}

        try:
            return snapshots.stage(table, change, properties)
        except no_answer() as error:
            raise UnknownOutcomeError(str(error)) from error

    def stage_manifests(self) -> Staged | None:
        """The same files in fewer manifests; None if there is nothing to gain."""
        try:
            return snapshots.stage_manifests(self.handle)
        except no_answer() as error:
            raise UnknownOutcomeError(str(error)) from error


def _info(file: Any, deletes: tuple[Any, ...], spec_id: int) -> DataFileInfo:
    return DataFileInfo(
        file.file_path,
        file.record_count,
        file.file_size_in_bytes,
        part_of(file),
        file,
        deletes,
        is_current=file.spec_id == spec_id,
    )


def _milliseconds(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise LakeError(f"{text} is not a time; write 2026-01-31T12:00:00+00:00") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _change(
    table: Any,
    commit: TableCommit,
    files: Sequence[WrittenFile],
    removed: Sequence[DataFileInfo],
) -> snapshots.SnapshotChange:
    properties = {COMMIT_ID: commit.commit_id}
    if commit.offsets is not None:
        properties[DIGEST] = progress.digest(commit.offsets)
    if commit.is_replacement:
        operation = Operation.REPLACE
    else:
        operation = Operation.OVERWRITE if removed or commit.deletes else Operation.APPEND
    return snapshots.SnapshotChange(
        operation.value,
        [data_file(table, one) for one in files],
        [delete_file(table, one) for one in commit.deletes],
        frozenset(one.handle.file_path for one in removed),
        frozenset(commit.removed_deletes),
        properties,
    )


def _version(table: Any) -> str:
    snapshot = table.current_snapshot()
    return _NO_VERSION if snapshot is None else str(snapshot.snapshot_id)


def _version_or_none(table: Any) -> str | None:
    return None if table is None else _version(table)


def _newest_first(table: Any) -> Any:
    """The snapshots that the current one came from, itself first."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def _lineage(table: Any) -> list[Ancestor]:
    return [Ancestor(one.snapshot_id, one.sequence_number or 0) for one in _newest_first(table)]


def _total_rows(snapshot: Any) -> int:
    """How many rows a snapshot has; one that does not tell may have some."""
    return int((snapshot.summary or {}).get("total-records") or 1)
