"""Columns of a table of JSON that nobody has described.

A new table has the columns that some records of its topic tell, and gets more by itself: a task
that finds a field for which there is no column writes nothing, looks through the rest of its ranges
for others, and tells them. The table gets columns for them, and the round is written again, which
happens once for each new field of a topic. So no field is ever left out.

The table is what is known: the types of its columns stay. A value that does not fit one of them is
a dead letter, and so is a number with a fraction where whole numbers were; `jsonNumbers=double`,
said when a table is made, makes every number a double.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.spark.formats import field_of
from kaa.spark.formats.conform import nullable, struct_of
from kaa.spark.formats.inference import grown, joined, with_doubles
from kaa.spark.formats.options import format_options
from kaa.spark.options import source_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.spark.formats import Infer
    from kaa.spark.formats.options import Side
    from kaa.spark.formats.untyped import Schema, StructType
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.table import LakeTable
    from kaa.spark.lake.writing import Grown


def columns_of_side(side: Side, schema: Schema) -> StructType:
    """The fields that columns of a table are filled by, if they are named as records name them."""
    named = ((field_of(side, one.name), one) for one in schema)
    return struct_of({name: nullable(one.type) for name, one in named if name is not None})


def first_columns(
    settings: LakeSettings, own_columns: Callable[[LakeSettings], Schema | None]
) -> Infer:
    """What a table is opened with: its own columns, or those of some records if it is new."""

    def infer(side: Side) -> StructType:
        known = own_columns(settings)
        if known is not None:
            return columns_of_side(side, known)
        from kaa.spark.formats.readers import sampled_columns

        source = source_options(settings.source(), is_stream=False)
        return sampled_columns(source, side, has_only_doubles=_has_only_doubles(settings)).type

    return infer


class InferredColumns:
    """The columns of the rounds of one committer: those of the table, and what it has seen."""

    def __init__(self, table: LakeTable) -> None:
        self._table = table
        # Also what the table did not take, so that it is not looked at again in each round.
        self._seen: dict[Side, StructType] = {}

    def __call__(self, side: Side) -> StructType:
        names = self._table.sources()
        own = [one.with_name(names.get(one.name, one.name)) for one in self._table.schema()]
        return grown(columns_of_side(side, own), self._seen.get(side, struct_of({})))

    def add(self, found: Iterable[Grown]) -> None:
        """Takes over what tasks have seen."""
        for one in found:
            for side, seen in one.seen.items():
                self._seen[side] = joined(self._seen.get(side, struct_of({})), seen)
        if _has_only_doubles(self._table.settings):
            self._seen = {side: with_doubles(seen) for side, seen in self._seen.items()}


def _has_only_doubles(settings: LakeSettings) -> bool:
    sides: tuple[Side, ...] = ("key", "value")
    wanted = (format_options(settings.formats, side) for side in sides)
    return any(one is not None and one.has_only_doubles for one in wanted)
