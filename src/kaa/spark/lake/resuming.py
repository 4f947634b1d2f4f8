"""Says where a table goes on after it was rolled back or lost its offsets.

`rows` looks at what is there: each partition goes on after its highest offset. Rows that were
deleted from the end of a partition come again that way. `earliest` and `latest` ask the topic,
and offsets can be given one by one, `{"0": 12, "1": 7}`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kaa.spark.formats.untyped import pa, pc
from kaa.spark.lake.table import LakeError, TableCommit
from kaa.spark.lake.table_state import offsets_option
from kaa.spark.lookup import Lookup
from kaa.spark.options import source_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.spark.lake.table import LakeTable


def resume_offsets(table: LakeTable, start: str) -> dict[int, int]:
    """The offset that each partition of the topic would go on from."""
    lookup = Lookup(source_options(table.settings.source(), is_stream=False))
    partitions = lookup.partitions().partitions
    earliest = {one.partition: at for one, at in lookup.earliest(partitions).items()}
    latest = {one.partition: at for one, at in lookup.latest(partitions).items()}
    if start in {"earliest", "latest"}:
        return earliest if start == "earliest" else latest
    given = _behind_rows(table) if start == "rows" else offsets_option(start, "--from") or {}
    strange = sorted(given.keys() - earliest.keys())
    if strange:
        raise LakeError(f"{table.settings.topic} has no partition {strange[0]}")
    ahead = [one for one, at in given.items() if at > latest[one]]
    if ahead:
        raise LakeError(
            f"partition {ahead[0]} of {table.settings.topic} ends at {latest[ahead[0]]}, "
            f"before {given[ahead[0]]}"
        )
    return {**earliest, **given}


def _behind_rows(table: LakeTable) -> dict[int, int]:
    place = table.prepare(table.schema())
    names = {place.source_of(name): name for name in place.schema.names}
    if not {"partition", "offset"} <= names.keys():
        raise LakeError("the table has no columns partition and offset to look at")
    fields = [place.schema.field(names[one]) for one in ("partition", "offset")]
    reader, highest = table.reader(), dict[int, int]()
    for file in table.files():
        for batch in reader.batches(file, pa.schema(fields)):
            numbers, offsets = batch.columns
            for number in pc.unique(numbers).to_pylist():
                found = pc.max(offsets.filter(pc.equal(numbers, pa.scalar(number, pa.int32()))))
                highest[number] = max(highest.get(number, 0), found.as_py() + 1)
    return highest


def resume(table: LakeTable, offsets: Mapping[int, int]) -> None:
    """Commits where the table goes on; fails if somebody else commits meanwhile."""
    lookup = Lookup(source_options(table.settings.source(), is_stream=False))
    settings = table.settings
    state = table.load()
    topic_id = lookup.partitions().topic_ids.get(settings.topic)
    commit = TableCommit(os.urandom(8).hex(), offsets, topic_id, settings.mode)
    table.commit(state.version, commit)
