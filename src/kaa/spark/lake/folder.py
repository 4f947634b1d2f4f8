"""A folder of Parquet files with manifests: tables without a catalog.

    <warehouse>/<table>/data/<part>/<topic>-<partition>-<start>-<end>-<commit>-….parquet
    <warehouse>/<table>/dead_letters/….parquet
    <warehouse>/<table>/_kaa/00000000000000000000.json
    <warehouse>/<table>/_kaa/00000000000000000001.json

Manifest number n is version n of the table. It is written with *put if absent*: of several
committers that want to be n, one is, and the others see a conflict. Nothing is ever changed.

| key | of a manifest |
|---|---|
| format | 1 |
| commit | id of the commit |
| time_ms | when it was made |
| offsets | the next offset of each partition |
| topic_id | the topic that they are offsets of |
| mode | append or upsert |
| terms | the partitioning, as text |
| settings | what the table keeps of its settings |
| schema | the columns, as an Arrow schema in base64 |
| full | true: `added` lists all files; false: files added since the manifest before |
| added | `{"path", "rows", "bytes", "part", "dead"}` each; paths are relative to the table |
| removed | paths of files that no longer belong to the table |

Expiry makes numbers free again. A committer that slept for so long may take one of them: it looks
afterwards whether its manifest is in the unbroken run up to the newest, which alone counts.

The files of version n are those of the newest full manifest up to n, and what was added and removed
since. Rows are there once for readers that go by the manifests; one that reads every file of the
folder may see files of a failed round, or both sides of a compaction.
"""

from __future__ import annotations

import base64
import json
import time
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from kaa.limits import LAKE_FULL_MANIFEST_VERSIONS
from kaa.spark.formats.conform import widened
from kaa.spark.formats.untyped import pa
from kaa.spark.lake.files import FolderReader
from kaa.spark.lake.owned import adopted, kept
from kaa.spark.lake.partitioning import check_terms
from kaa.spark.lake.store import ExistsError
from kaa.spark.lake.table import (
    ConflictError,
    DataFileInfo,
    LakeError,
    TableState,
    UnknownOutcomeError,
    WritePlace,
    check_old_files,
)

if TYPE_CHECKING:
    from kaa.spark.formats.untyped import Schema
    from kaa.spark.lake.partitioning import Part, Term
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.store import Store
    from kaa.spark.lake.table import (
        TableCommit,
    )

MANIFESTS: Final = "_kaa"
DATA: Final = "data"
DEAD_LETTERS: Final = "dead_letters"
_FORMAT: Final = 1
_NO_VERSION: Final = -1


def own_settings(settings: LakeSettings) -> LakeSettings:
    """The settings with what the table keeps, if it is there already; raises LakeError."""
    store = settings.store.at(settings.store.join(settings.name))
    manifest = newest_manifest(store)[1]
    return settings if manifest is None else adopted(settings, manifest["settings"])


def own_columns(settings: LakeSettings) -> Schema | None:
    """The columns of the table, if it is there already."""
    manifest = newest_manifest(settings.store.at(settings.store.join(settings.name)))[1]
    return None if manifest is None else _schema(manifest)


class FolderLake:
    """A table of a topic in a folder, with its dead letters."""

    def __init__(self, settings: LakeSettings, schema: Schema, dead_schema: Schema) -> None:
        self.settings = settings
        self.store = settings.store.at(settings.store.join(settings.name))
        self.terms: tuple[Term, ...] = settings.terms
        check_terms(settings.terms, schema)
        self._schema = schema
        self._dead_schema = dead_schema

    def exists(self) -> bool:
        return bool(self._numbers())

    def load(self) -> TableState:
        number, manifest = self._newest()
        if manifest is None:
            return TableState(str(_NO_VERSION), {}, "", None, mode=self.settings.mode)
        adopted(self.settings, manifest["settings"])
        self._schema = _merged(_schema(manifest), self._schema)
        return _state(number, manifest)

    def state(self) -> TableState:
        return self.load()

    def sources(self) -> dict[str, str]:
        """What records call columns that have another name: there are none."""
        return {}

    def prepare(self, schema: Schema) -> WritePlace:
        self._schema = _merged(self._schema, schema)
        return WritePlace(
            store=self.store,
            data_url=self.store.join(DATA),
            dead_url=self.store.join(DEAD_LETTERS),
            schema=self._schema,
            dead_schema=self._dead_schema,
            dead_from={},
        )

    def commit(self, version: str, commit: TableCommit) -> None:
        check_old_files(self.store, commit.added)
        number = int(version) + 1
        added = [
            {
                "path": self.store.relative(one.url),
                "rows": one.rows,
                "bytes": one.size_bytes,
                "part": [_json_value(value) for value in one.part],
                "dead": one.is_dead_letters,
            }
            for one in commit.added
        ]
        removed = [self.store.relative(one.url) for one in commit.removed]
        is_full = number % LAKE_FULL_MANIFEST_VERSIONS == 0
        if is_full:
            gone = set(removed)
            before = self._entries(int(version)) if number else []
            added = [one for one in before if one["path"] not in gone] + added
        commit_id, offsets, topic_id = commit.commit_id, commit.offsets, commit.topic_id
        if offsets is None:
            state = self.load()
            offsets, topic_id = state.offsets, state.topic_id
            if commit.is_replacement:
                commit_id = state.commit_id
        manifest = {
            "format": _FORMAT,
            "commit": commit_id,
            "time_ms": time.time_ns() // 1_000_000,
            "offsets": {str(one): at for one, at in sorted(offsets.items())},
            "topic_id": topic_id,
            "mode": commit.mode,
            "terms": ", ".join(map(str, self.terms)),
            "settings": kept(self.settings),
            "schema": base64.b64encode(self._schema.serialize().to_pybytes()).decode(),
            "full": is_full,
            "added": added,
            "removed": [] if is_full else removed,
        }
        self._create(number, json.dumps(manifest).encode())

    def _create(self, number: int, data: bytes) -> None:
        """Writes a manifest, if its number is the next one."""
        try:
            self.store.create(_name(number), data)
            present = _present(self.store)
        except ExistsError as error:
            # The client of a store repeats what got no answer, and may meet itself.
            if self.store.read(_name(number)) != data:
                raise ConflictError(f"another commit has written {_name(number)}") from error
            return
        except OSError as error:
            raise UnknownOutcomeError(str(error)) from error
        if number in _unbroken(present):
            return
        if number not in present:
            raise UnknownOutcomeError(f"{_name(number)} was forgotten at once")
        self.store.delete([_name(number)])
        raise ConflictError(f"{_name(number)} was forgotten long ago")

    def files(self, offset_state: TableState | None = None) -> list[DataFileInfo]:
        return self._infos(offset_state, is_dead=False)

    def dead_letters(self) -> list[DataFileInfo]:
        """The files with what could not be decoded."""
        return self._infos(None, is_dead=True)

    def _infos(self, state: TableState | None, *, is_dead: bool) -> list[DataFileInfo]:
        number = self._newest()[0] if state is None else int(state.version)
        if number == _NO_VERSION:
            return []
        schema = self.schema()
        return [
            DataFileInfo(
                self.store.join(one["path"]),
                one["rows"],
                one["bytes"],
                self._part(one["part"], schema),
            )
            for one in self._entries(number)
            if one["dead"] == is_dead
        ]

    def history(self) -> list[TableState]:
        return [_state(number, self._read(number)) for number in self._numbers()]

    def known_offsets(self) -> list[TableState]:
        return self.history()

    def reader(self) -> FolderReader:
        return FolderReader(self.settings.store)

    def schema(self) -> Schema:
        _, manifest = self._newest()
        return self._schema if manifest is None else _schema(manifest)

    def forget_before(self, number: int) -> list[str]:
        """The manifests that are no longer needed when versions from `number` on are to be read."""
        kept = self._full_before(number)
        return [_name(one) for one in _present(self.store) if one < kept]

    def files_since(self, number: int) -> set[str]:
        """Every file, as a relative path, that a version from `number` on names."""
        named = {one["path"] for one in self._entries(number)}
        for one in self._numbers():
            if one > number:
                named |= {entry["path"] for entry in self._read(one)["added"]}
        return named

    # --- manifests

    def _numbers(self) -> list[int]:
        return _numbers(self.store)

    def _newest(self) -> tuple[int, dict[str, Any] | None]:
        return newest_manifest(self.store)

    def _read(self, number: int) -> dict[str, Any]:
        return _read(self.store, number)

    def _full_before(self, number: int) -> int:
        return number - number % LAKE_FULL_MANIFEST_VERSIONS

    def _entries(self, number: int) -> list[dict[str, Any]]:
        entries: dict[str, dict[str, Any]] = {}
        for one in range(self._full_before(number), number + 1):
            manifest = self._read(one)
            if manifest["full"]:
                entries.clear()
            for path in manifest["removed"]:
                entries.pop(path, None)
            entries |= {entry["path"]: entry for entry in manifest["added"]}
        return list(entries.values())

    def _part(self, values: list[Any], schema: Schema) -> Part:
        kinds = [
            schema.field(term.column).type if term.transform == "identity" else None
            for term in self.terms
        ]
        return tuple(_part_value(value, kind) for value, kind in zip(values, kinds, strict=False))


def newest_manifest(store: Store) -> tuple[int, dict[str, Any] | None]:
    """The newest manifest and its number."""
    numbers = _numbers(store)
    return (numbers[-1], _read(store, numbers[-1])) if numbers else (_NO_VERSION, None)


def _numbers(store: Store) -> list[int]:
    return _unbroken(_present(store))


def _present(store: Store) -> list[int]:
    names = [one.path.rpartition("/")[2] for one in store.list(MANIFESTS)]
    return sorted(int(name[:-5]) for name in names if name[:-5].isdecimal())


def _unbroken(numbers: list[int]) -> list[int]:
    """Those without a gap up to the newest, from a full manifest on, as expiry leaves them.

    What is before is of a committer that came far too late, or of an expiry that was broken off.
    """
    gaps = [at for at in range(1, len(numbers)) if numbers[at] != numbers[at - 1] + 1]
    run = numbers[gaps[-1] :] if gaps else numbers
    full = [at for at, one in enumerate(run) if one % LAKE_FULL_MANIFEST_VERSIONS == 0]
    return run[full[0] :] if full else run


def _read(store: Store, number: int) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(store.read(_name(number)))
    if manifest.get("format") != _FORMAT:
        raise LakeError(f"manifest {number} has a format that this version does not know")
    return manifest


def _name(number: int) -> str:
    return f"{MANIFESTS}/{number:020}.json"


def _schema(manifest: dict[str, Any]) -> Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(manifest["schema"])))


def _state(number: int, manifest: dict[str, Any]) -> TableState:
    offsets = {int(one): at for one, at in manifest["offsets"].items()}
    return TableState(
        str(number),
        offsets,
        manifest["commit"],
        manifest["topic_id"],
        manifest["time_ms"],
        manifest["mode"],
    )


def _merged(known: Schema, wanted: Schema) -> Schema:
    """The known columns, widened where possible, and the new ones after them."""
    types = {one.name: one.type for one in known}
    for one in wanted:
        if one.name not in types:
            types[one.name] = one.type
        else:
            # A type that does not fit stays as it is, and its records become dead letters.
            types[one.name] = widened(types[one.name], one.type) or types[one.name]
    return pa.schema([pa.field(name, kind) for name, kind in types.items()])


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime | date):
        return {"text": value.isoformat()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"text": str(value)}


def _part_value(value: Any, kind: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    return pa.scalar(value["text"]).cast(kind).as_py()
