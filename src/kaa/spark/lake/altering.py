"""Changes of what a table keeps: `kaa lake alter`, with a plan first.

- `partitionBy`: Iceberg's own rule: new files are divided the new way, old ones stay as they are
  until compaction comes to them. Tables with one row per key and folders of Parquet files cannot be
  divided again.
- `columns`: more of them; rows that are there are null in the new ones.
- `targetFileBytes`, `compression`: how files are written from now on.
- `maintenance`: whether a committer looks after the table.
- options of a schema: where the columns are decoded from; not the format itself.

Everything else decides what rows mean, and stays: make another table of the topic instead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kaa.spark.lake.folder import FolderLake
from kaa.spark.lake.iceberg.catalog import IcebergLake
from kaa.spark.lake.owned import FREE, OWNED, kept
from kaa.spark.lake.partitioning import check_terms, parse_terms
from kaa.spark.lake.settings import lake_settings, normal_columns
from kaa.spark.lake.table import LakeError, TableCommit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.spark.lake.table import LakeTable

_SCHEMAS: Final = tuple(
    side + name
    for side in ("key", "value")
    for name in ("Schema", "SchemaFile", "SchemaId", "Subject", "SchemaVersion")
)
ALTERABLE: Final = ("partitionBy", "columns", *FREE, *_SCHEMAS, "schemaRegistry.url")


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting that becomes another."""

    name: str
    before: str
    after: str


def plan_alter(table: LakeTable, wanted: Mapping[str, str]) -> list[SettingChange]:
    """What would change; raises LakeError for what cannot be."""
    stored = kept(table.settings)
    if "partitionBy" in stored:
        stored["partitionBy"] = ", ".join(map(str, table.terms))
    known = {name.lower(): name for name in OWNED}
    changes = []
    for given, after in wanted.items():
        name = known.get(given.lower())
        if name is None:
            raise LakeError(
                f"{given} is not a setting that a table keeps; it keeps {', '.join(OWNED)}"
            )
        if name not in ALTERABLE:
            raise LakeError(
                f"{name} cannot be changed, since rows of both kinds would be in one table; "
                f"{', '.join(ALTERABLE)} can"
            )
        if name == "partitionBy":
            after = _division(table, after)
        if name == "columns":
            after = _columns(table, after)
        before = stored.get(name, "")
        if before != after:
            changes.append(SettingChange(name, before, after))
    return changes


def _division(table: LakeTable, text: str) -> str:
    if table.settings.mode == "upsert":
        raise LakeError("a table with one row per key must stay partitioned by its key")
    if isinstance(table, FolderLake):
        raise LakeError(
            "the partitioning of a folder of Parquet files is fixed; only Iceberg tables change it"
        )
    terms = parse_terms(text)
    check_terms(terms, table.schema())
    return ", ".join(map(str, terms))


def _columns(table: LakeTable, text: str) -> str:
    wanted = normal_columns(text, table.settings.mode)
    gone = [one for one in table.settings.columns if one not in wanted]
    if gone:
        raise LakeError(f"columns can only be added; {', '.join(gone)} would be removed")
    return ",".join(wanted)


def alter(table: LakeTable, changes: list[SettingChange]) -> None:
    """Makes the changes, in one commit."""
    after = {one.name: one.after for one in changes}
    given = {**kept(table.settings), **table.settings.given}
    lower = {name.lower() for name in after}
    given = {name: value for name, value in given.items() if name.lower() not in lower}
    settings = lake_settings({**given, **after}, has_topic=table.settings.has_topic)
    if isinstance(table, IcebergLake):
        terms = settings.terms if "partitionBy" in after else None
        table.data.alter(after, terms)
        return
    assert isinstance(table, FolderLake)
    state = table.load()
    # What was said before is compared with what the table no longer keeps.
    owned = {name.lower() for name in OWNED}
    unowned = {name: value for name, value in given.items() if name.lower() not in owned}
    table.settings = replace(settings, given=unowned)
    commit = TableCommit(os.urandom(8).hex(), None, None, state.mode, is_replacement=True)
    table.commit(state.version, commit)
