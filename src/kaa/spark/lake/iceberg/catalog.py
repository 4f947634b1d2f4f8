"""Tables of Apache Iceberg, by pyiceberg.

The partitioning is the table's: files go where its current spec says, and a command that names
another one is refused. Files are added with explicit values of their parts and with statistics out
of their footers; columns are found by field id, so that renamed ones keep their data.

A round with dead letters changes two tables, at once where the catalog can do that (`together`
says how). Where it cannot, the dead letters are committed first, under the same commit id. Their
table carries offsets of its own: bad records before them are never written again, so each is there
once, wherever a committer crashed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import NotInstalledError, RESTError

from kaa.spark.formats.conform import nullable
from kaa.spark.formats.untyped import pa
from kaa.spark.lake.iceberg.spec import terms_of
from kaa.spark.lake.iceberg.table import IcebergTable
from kaa.spark.lake.iceberg.together import Publisher, no_answer
from kaa.spark.lake.owned import adopted, from_properties, is_of_query, kept, to_properties
from kaa.spark.lake.table import (
    LakeError,
    NoTableError,
    StaleRoundError,
    WritePlace,
    check_old_files,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.spark.formats.untyped import Schema
    from kaa.spark.lake.files import IcebergReader
    from kaa.spark.lake.partitioning import Term
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.table import DataFileInfo, TableCommit, TableState, WrittenFile

DEAD_SUFFIX: Final = "_dead_letters"


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


def own_settings(settings: LakeSettings) -> LakeSettings:
    """The settings with what the table keeps, if it is there already; raises LakeError."""
    data = IcebergTable(open_catalog(settings), settings.namespace, settings.name, settings.store)
    try:
        table = data.handle
    except NoTableError:
        return settings
    return _own(settings, table)


def own_columns(settings: LakeSettings) -> Schema | None:
    """The columns of the table, by the names that records know, if it is there already."""
    data = IcebergTable(open_catalog(settings), settings.namespace, settings.name, settings.store)
    try:
        table = data.handle
    except NoTableError:
        return None
    schema, names = data.write_schema(table), data.sources(table)
    return pa.schema([one.with_name(names.get(one.name, one.name)) for one in schema])


def _own(settings: LakeSettings, table: Any) -> LakeSettings:
    stored = from_properties(table.properties)
    terms = terms_of(table)
    if stored.get("mode") == "upsert":
        if len(terms) != 1 or terms[0].transform != "bucket":
            raise LakeError(
                f"{settings.table} has one row per key and is divided by "
                f"{', '.join(map(str, terms)) or 'nothing'}: another engine changed that; divide "
                "it by a bucket of its key again"
            )
        stored["buckets"] = str(terms[0].buckets)
    else:
        stored["partitionBy"] = ", ".join(map(str, terms))
    return adopted(settings, stored)


class IcebergLake:
    """A table of a topic and its dead letters."""

    def __init__(self, settings: LakeSettings, schema: Schema, dead_schema: Schema) -> None:
        self.settings = settings
        self._catalog = open_catalog(settings)
        self._publisher = Publisher(self._catalog)
        self.terms: tuple[Term, ...] = settings.terms
        self._first_schema = schema
        self._dead_schema = dead_schema
        self._data = IcebergTable(self._catalog, settings.namespace, settings.name, settings.store)
        self._dead = IcebergTable(
            self._catalog, settings.namespace, settings.name + DEAD_SUFFIX, settings.store
        )

    def exists(self) -> bool:
        return self._data.exists()

    def load(self) -> TableState:
        properties = to_properties(kept(self.settings))
        table = self._data.ensure(self._first_schema, self.settings.terms, properties)
        _own(self.settings, table)
        self.terms = terms_of(table)
        return self._state(table)

    def state(self) -> TableState:
        return self._state(self._data.handle)

    def _state(self, table: Any) -> TableState:
        return self._data.state(self.settings.topic if self.settings.has_topic else None, table)

    def sources(self) -> dict[str, str]:
        """What records call those columns that have another name."""
        return self._data.sources()

    def prepare(self, schema: Schema) -> WritePlace:
        table = self._data.evolve(schema)
        self.terms = terms_of(table)
        place = WritePlace(
            store=self.settings.store,
            data_url=f"{table.location()}/data",
            dead_url="",
            schema=self._data.write_schema(table),
            dead_schema=self._dead_schema,
            dead_from={},
            spec=table.metadata.default_spec_id,
            sources=self._data.sources(table),
        )
        if not len(self._dead_schema) or is_of_query(table.properties):
            return place  # Rows of a query are never bad, so there is no second table.
        dead = self._dead.ensure(self._dead_schema, (), {})
        return replace(
            place,
            dead_url=f"{dead.location()}/data",
            dead_schema=self._dead.write_schema(dead),
            dead_from=self._dead.state(None, dead).offsets,
        )

    def commit(self, version: str, commit: TableCommit) -> None:
        check_old_files(self.settings.store, commit.added)
        letters = [one for one in commit.added if one.is_dead_letters]
        data = [one for one in commit.added if not one.is_dead_letters]
        dead_version = self._dead_version(commit, letters) if letters else None
        staged = [self._data.stage(version, commit, data, commit.removed)]
        if dead_version is not None:
            staged.insert(0, self._dead.stage(dead_version, commit, letters))
        self._publisher.publish(staged)

    def rewrite_manifests(self) -> bool:
        """Writes small manifests together; whether there was something to do."""
        staged = self._data.stage_manifests()
        if staged is not None:
            self._publisher.publish([staged])
        return staged is not None

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

    def known_offsets(self) -> list[TableState]:
        return self._data.known_offsets()

    def reader(self) -> IcebergReader:
        return self._data.reader()

    def schema(self) -> Schema:
        fields = self._data.write_schema()
        return pa.schema([pa.field(one.name, nullable(one.type)) for one in fields])

    @property
    def data(self) -> IcebergTable:
        return self._data

    @property
    def dead(self) -> IcebergTable:
        return self._dead

    @property
    def tables(self) -> list[IcebergTable]:
        """The table, and that of its dead letters if there is one."""
        return [self._data, self._dead] if self._dead.exists() else [self._data]


def _unusable() -> tuple[type[Exception], ...]:
    """What says that a catalog cannot be used; which there are depends on what it has loaded."""
    return (RESTError, NotInstalledError, *no_answer())
