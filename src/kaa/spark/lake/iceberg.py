"""Tables of Apache Iceberg, by pyiceberg.

What the committer needs travels in the summary of each snapshot:

================ ==========================================================================
property
================ ==========================================================================
kaa.offsets      the next offset of each partition, as JSON ``{"0": 12, "1": 7}``
kaa.commit-id    who committed; a committer recognises its own after a lost answer
kaa.topic-id     the topic that they are offsets of, to notice one that was made anew
kaa.mode         append or upsert
================ ==========================================================================

Every commit of ours repeats them, maintenance too; commits of others do not, so they are looked for
from the newest snapshot backwards. The version of the table is the id of its current snapshot: the
catalog takes a commit only if that has not changed. pyiceberg's own retries are switched off, since
they would add files of a round again on top of another committer's.

Files are added with explicit values of their parts and with statistics out of their footers; field
ids are in the files, so that renamed columns keep their data.

A round with dead letters changes two tables, at once where the catalog can do that (``together``
says how). Where it cannot, the dead letters are committed first, under the same commit id. Their
table carries offsets of its own: bad records before them are never written again, so each is there
once, wherever a committer crashed.
"""

from __future__ import annotations

import contextlib
import json
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
    TableAlreadyExistsError,
)

from kaa.spark.formats.conform import nullable, widened
from kaa.spark.formats.untyped import pa
from kaa.spark.lake.partitioning import check_terms
from kaa.spark.lake.store import normal_url
from kaa.spark.lake.table import (
    ConflictError,
    DataFileInfo,
    LakeError,
    StaleRoundError,
    TableState,
    UnknownOutcomeError,
    WritePlace,
)
from kaa.spark.lake.together import Publisher, Staged, no_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.spark.formats.untyped import DataType, Schema
    from kaa.spark.lake.partitioning import Part, Term
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.store import Store
    from kaa.spark.lake.table import (
        TableCommit,
        WrittenFile,
    )

OFFSETS: Final = "kaa.offsets"
COMMIT_ID: Final = "kaa.commit-id"
TOPIC_ID: Final = "kaa.topic-id"
MODE: Final = "kaa.mode"
DEAD_SUFFIX: Final = "_dead_letters"
_NO_VERSION: Final = "none"
_PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def open_catalog(settings: LakeSettings) -> Any:
    """The catalog that the settings name; without any, SQLite in the warehouse."""
    from pyiceberg.catalog import load_catalog

    properties = {**settings.store.iceberg_properties(), **settings.catalog}
    name = properties.pop("name", "kaa")
    if "type" not in properties and "uri" not in properties:
        from kaa.spark.lake.store import path_of

        if not settings.store.is_local:
            raise LakeError(
                "a warehouse on an object store needs a catalog: catalog.type=rest with "
                "catalog.uri, catalog.type=glue, or catalog.type=sql with "
                "catalog.uri=sqlite:////path/catalog.db"
            )
        from pathlib import Path

        folder = Path(path_of(settings.store.url))
        folder.mkdir(parents=True, exist_ok=True)
        properties |= {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"}
    properties.setdefault("warehouse", settings.store.url)
    try:
        return load_catalog(name, **properties)
    except _unusable() as error:
        kind = properties.get("type", "rest")
        raise LakeError(f"the {kind} catalog cannot be used: {error}") from error


class IcebergLake:
    """A table of a topic and its dead letters."""

    def __init__(self, settings: LakeSettings, schema: Schema, dead_schema: Schema) -> None:
        self._settings = settings
        self._catalog = open_catalog(settings)
        self._publisher = Publisher(self._catalog)
        self.terms: tuple[Term, ...] = settings.terms
        check_terms(settings.terms, schema)
        self._first_schema = schema
        self._dead_schema = dead_schema
        self._data = IcebergTable(self._catalog, settings.namespace, settings.name, settings.store)
        self._dead = IcebergTable(
            self._catalog, settings.namespace, settings.name + DEAD_SUFFIX, settings.store
        )

    def load(self) -> TableState:
        self._data.ensure(self._first_schema, self.terms)
        return self._data.state()

    def prepare(self, schema: Schema) -> WritePlace:
        data = self._data.evolve(schema)
        place = WritePlace(
            store=self._settings.store,
            data_url=f"{self._data.handle.location()}/data",
            dead_url="",
            schema=data,
            dead_schema=self._dead_schema,
            dead_from={},
        )
        if not len(self._dead_schema):
            return place  # Rows of a query are never bad, so there is no second table.
        self._dead.ensure(self._dead_schema, ())
        return replace(
            place,
            dead_url=f"{self._dead.handle.location()}/data",
            dead_schema=self._dead.write_schema(),
            dead_from=self._dead.state().offsets,
        )

    def commit(self, version: str, commit: TableCommit) -> None:
        letters = [one for one in commit.added if one.is_dead_letters]
        data = [one for one in commit.added if not one.is_dead_letters]
        dead_version = self._dead_version(commit, letters) if letters else None
        staged = [self._data.stage(version, commit, data, commit.removed)]
        if dead_version is not None:
            staged.insert(0, self._dead.stage(dead_version, commit, letters))
        self._publisher.publish(staged)

    def _dead_version(self, commit: TableCommit, letters: Sequence[WrittenFile]) -> str | None:
        """The version that the letters are committed to; None if they are there already."""
        state = self._dead.state()
        if all(one.first_offset >= state.offsets.get(one.partition, 0) for one in letters):
            return state.version
        if any(one.commit_id == commit.commit_id for one in self._dead.history()):
            return None
        raise StaleRoundError("another committer wrote these dead letters")

    def files(self, offset_state: TableState | None = None) -> list[DataFileInfo]:
        return self._data.files(None if offset_state is None else offset_state.version)

    def history(self) -> list[TableState]:
        return self._data.history()

    def schema(self) -> Schema:
        fields = self._data.write_schema()
        return pa.schema([pa.field(one.name, nullable(one.type)) for one in fields])

    @property
    def data(self) -> IcebergTable:
        return self._data

    @property
    def dead(self) -> IcebergTable:
        return self._dead


class IcebergTable:
    """One table of a catalog."""

    def __init__(self, catalog: Any, namespace: str, name: str, store: Store) -> None:
        self._catalog = catalog
        self._namespace = namespace
        self._identifier = (namespace, name)
        self._store = store
        self._loaded: Any = None

    @property
    def handle(self) -> Any:
        """Pyiceberg's table as it is now."""
        try:
            self._loaded = self._catalog.load_table(self._identifier)
        except NoSuchTableError as error:
            raise LakeError(f"there is no table {'.'.join(self._identifier)}") from error
        return self._loaded

    def ensure(self, schema: Schema, terms: tuple[Term, ...]) -> None:
        """Creates the table if it is not there; several may try at once."""
        if self._catalog.table_exists(self._identifier):
            self._check_retries()
            return
        with contextlib.suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(self._namespace)
        try:
            with self._catalog.create_table_transaction(
                self._identifier, schema=schema, properties=_PROPERTIES
            ) as transaction:
                if terms:
                    with transaction.update_spec() as spec:
                        for term in terms:
                            spec.add_field(term.column, _transform(term), term.name)
        except (TableAlreadyExistsError, CommitFailedException):
            # Somebody else made it; load_table tells if that is not so.
            self._catalog.load_table(self._identifier)

    def _check_retries(self) -> None:
        table = self.handle
        if table.properties.get("commit.retry.num-retries") != "0":
            with table.transaction() as transaction:
                transaction.set_properties({"commit.retry.num-retries": "0"})

    # --- state

    def state(self) -> TableState:
        table = self.handle
        version = _version(table)
        for snapshot in _newest_first(table):
            if snapshot.summary is not None and snapshot.summary.get(OFFSETS) is not None:
                return _state(version, snapshot)
        return TableState(version, {}, "", None)

    def history(self) -> list[TableState]:
        """The snapshots that carry offsets, oldest first; each with its own id as version."""
        return [
            _state(str(one.snapshot_id), one)
            for one in reversed(list(_newest_first(self.handle)))
            if one.summary is not None and one.summary.get(OFFSETS) is not None
        ]

    def files(self, version: str | None = None) -> list[DataFileInfo]:
        table = self.handle
        if version == _NO_VERSION or (version is None and table.current_snapshot() is None):
            return []
        scan = table.scan(snapshot_id=None if version is None else int(version))
        found = []
        for task in scan.plan_files():
            if task.delete_files:
                raise LakeError(
                    f"{'.'.join(self._identifier)} has delete files, which another engine wrote; "
                    "let that engine compact it first"
                )
            file = task.file
            part = tuple(file.partition[index] for index in range(len(file.partition)))
            found.append(
                DataFileInfo(file.file_path, file.record_count, file.file_size_in_bytes, part, file)
            )
        return found

    @property
    def store(self) -> Store:
        """The folder of the table."""
        return self._store.at(self.handle.location())

    def referenced(self) -> set[str]:
        """Every file that a snapshot of the table names, and the metadata that names them."""
        table = self.handle
        named = {normal_url(table.metadata_location)}
        named |= {normal_url(one.metadata_file) for one in table.metadata.metadata_log}
        for snapshot in table.metadata.snapshots:
            named.add(normal_url(snapshot.manifest_list))
            for manifest in snapshot.manifests(table.io):
                named.add(normal_url(manifest.manifest_path))
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                    named.add(normal_url(entry.data_file.file_path))
        return named

    # --- columns

    def evolve(self, schema: Schema) -> Schema:
        """Adds columns and widens types; a change that cannot be made is left out."""
        table = self.handle
        wanted = [one for one in schema if not _fits(table.schema(), one)]
        for one in wanted:
            try:
                with table.update_schema() as update:
                    update.union_by_name(pa.schema([one]))
            except CommitFailedException:
                table = self.handle  # Another committer changed it; the next round looks again.
            except Exception as error:
                # The name of what pyiceberg raises here differs from rule to rule.
                if type(error).__module__.startswith("pyiceberg") or isinstance(error, ValueError):
                    continue
                raise
        return self.write_schema()

    def write_schema(self) -> Schema:
        """The columns of the table with their field ids."""
        return pa.schema([_arrow_field(one) for one in self.handle.schema().fields])

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
        properties = {
            OFFSETS: json.dumps({str(one): at for one, at in sorted(commit.offsets.items())}),
            COMMIT_ID: commit.commit_id,
            MODE: commit.mode,
        }
        if commit.topic_id is not None:
            properties[TOPIC_ID] = commit.topic_id
        added = [self._data_file(table, one) for one in files]
        try:
            transaction = table.transaction()
            update = transaction.update_snapshot(snapshot_properties=properties)
            with update.overwrite() if removed else update.fast_append() as snapshot:
                for one in removed:
                    snapshot.delete_data_file(one.handle)
                for file in added:
                    snapshot.append_data_file(file)
        except no_answer() as error:
            raise UnknownOutcomeError(str(error)) from error
        return Staged(table, transaction, snapshot.snapshot_id)

    def _data_file(self, table: Any, file: WrittenFile) -> Any:
        from pyiceberg.io.pyarrow import (
            compute_statistics_plan,
            data_file_statistics_from_parquet_metadata,
            parquet_path_to_id_mapping,
        )
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        schema = table.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=pickle.loads(file.footer),  # noqa: S301  Our own tasks wrote it.
            stats_columns=compute_statistics_plan(schema, table.metadata.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.url,
            file_format=FileFormat.PARQUET,
            partition=Record(*_part_values(file.part)),
            file_size_in_bytes=file.size_bytes,
            sort_order_id=None,
            spec_id=table.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _unusable() -> tuple[type[Exception], ...]:
    """What says that a catalog cannot be used; which there are depends on what it has loaded."""
    return (RESTError, NotInstalledError, *no_answer())


def _part_values(part: Part) -> list[Any]:
    return list(part)


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


def _state(version: str, snapshot: Any) -> TableState:
    summary = snapshot.summary
    offsets = {int(one): int(at) for one, at in json.loads(summary[OFFSETS]).items()}
    return TableState(
        version,
        offsets,
        summary.get(COMMIT_ID) or "",
        summary.get(TOPIC_ID),
        snapshot.timestamp_ms,
        summary.get(MODE) or "append",
    )


def _transform(term: Term) -> Any:
    from pyiceberg import transforms

    if term.transform == "bucket":
        return transforms.BucketTransform(term.buckets)
    plain: dict[str, Any] = {
        "identity": transforms.IdentityTransform,
        "year": transforms.YearTransform,
        "month": transforms.MonthTransform,
        "day": transforms.DayTransform,
        "hour": transforms.HourTransform,
    }
    return plain[term.transform]()


def _fits(schema: Any, field: Any) -> bool:
    """Whether the table has a column that holds what the field holds."""
    if field.name not in schema.column_names:
        return False
    known = nullable(_arrow_type(schema.find_field(field.name).field_type))
    return bool(widened(known, field.type) == known)


def _arrow_field(field: Any) -> Any:
    """A field of the table for pyarrow, with the ids that Iceberg finds columns by."""
    return pa.field(
        field.name,
        _arrow_type(field.field_type),
        nullable=not field.required,
        metadata={b"PARQUET:field_id": str(field.field_id).encode()},
    )


def _arrow_type(kind: Any) -> DataType:
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(one) for one in kind.fields])
    if isinstance(kind, ListType):
        element = kind.element_field
        return pa.list_(_named(_arrow_field(element), "element"))
    if isinstance(kind, MapType):
        key, value = _arrow_field(kind.key_field), _arrow_field(kind.value_field)
        return pa.map_(_named(key, "key"), _named(value, "value"))
    return _simple_type(kind)


def _named(field: Any, name: str) -> Any:
    return pa.field(name, field.type, nullable=field.nullable, metadata=field.metadata)


def _simple_type(kind: Any) -> DataType:
    text = str(kind)
    simple = {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "time": pa.time64("us"),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", tz="UTC"),
        "uuid": pa.binary(16),
    }
    if text in simple:
        return simple[text]
    if text.startswith("decimal"):
        return pa.decimal128(kind.precision, kind.scale)
    raise LakeError(f"a column of the type {text} cannot be written")
