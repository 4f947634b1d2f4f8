"""Columns of Iceberg tables: their types for pyarrow, and which column of records each one is.

Other engines rename and drop columns, and Iceberg tells columns apart by field id alone. So the
table keeps, as the property `kaa.fields`, which field each column of the records was given:
`{"value": 7}`. A renamed column goes on being filled under its new name, and one that was dropped
is not made again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kaa.spark.formats.conform import nullable, widened
from kaa.spark.formats.untyped import pa
from kaa.spark.lake.table import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.spark.formats.untyped import DataType

FIELDS: Final = "kaa.fields"


def known_fields(properties: Mapping[str, str]) -> dict[str, int]:
    """The field id of each column of the records, as the table keeps it."""
    found: dict[str, int] = json.loads(properties.get(FIELDS, "{}"))
    return found


def all_fields(schema: Any, properties: Mapping[str, str], names: Iterable[str]) -> dict[str, int]:
    """The same with columns that were not looked for before; these go by their names."""
    ids = {one.name: one.field_id for one in schema.fields}
    fields = known_fields(properties)
    return fields | {one: ids[one] for one in names if one not in fields and one in ids}


def sources(schema: Any, fields: Mapping[str, int]) -> dict[str, str]:
    """For each column that has another name by now, the name that records know it by."""
    names = {one.field_id: one.name for one in schema.fields}
    return {
        names[number]: source
        for source, number in fields.items()
        if number in names and names[number] != source
    }


def wanted_name(schema: Any, fields: Mapping[str, int], source: str) -> str | None:
    """What a column of the records is called in the table; None if it was dropped."""
    if source not in fields:
        return source
    return next((one.name for one in schema.fields if one.field_id == fields[source]), None)


def fits(schema: Any, field: Any) -> bool:
    """Whether the table has a column that holds what the field holds."""
    if field.name not in schema.column_names:
        return False
    known = nullable(_arrow_type(schema.find_field(field.name).field_type))
    return bool(widened(known, field.type) == known)


def arrow_field(field: Any) -> Any:
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
        return pa.struct([arrow_field(one) for one in kind.fields])
    if isinstance(kind, ListType):
        element = kind.element_field
        return pa.list_(_named(arrow_field(element), "element"))
    if isinstance(kind, MapType):
        key, value = arrow_field(kind.key_field), arrow_field(kind.value_field)
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
