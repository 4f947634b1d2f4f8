"""The columns of a row: those of Spark's connector for Kafka.

| column | type in Spark | content |
|---|---|---|
| key | binary | null where the record has none |
| value | binary | null for a tombstone |
| topic | string |  |
| partition | int |  |
| offset | bigint |  |
| timestamp | timestamp |  |
| timestampType | int | 0 create time, 1 log append time |
| headers | array<struct<key string, value binary>> | with `includeHeaders`; null if there is none |

Every column may be null, also those that never are: Spark takes an Arrow batch only if its schema
equals that of the table in this point too. A query that needs few of them says so by the option
`columns` or by a schema of its own, since Spark does not tell a source which it uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.records.arrow import Columns

COLUMN_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""Types as Spark writes them itself."""

HEADERS: Final = "headers"


def columns_of(text: str | None, *, include_headers: bool) -> tuple[str, ...]:
    """The columns that options ask for."""
    if text is None:
        return tuple(name for name in COLUMN_TYPES if include_headers or name != HEADERS)
    names = {name.lower(): name for name in COLUMN_TYPES}
    wanted = [one.strip() for one in text.split(",") if one.strip()]
    unknown = [one for one in wanted if one.lower() not in names]
    if unknown or not wanted:
        raise OptionError(
            f"option columns: {', '.join(unknown) or 'nothing'} is not a column; "
            f"there are {', '.join(COLUMN_TYPES)}"
        )
    chosen = tuple(names[one.lower()] for one in wanted)
    if len(set(chosen)) < len(chosen):
        raise OptionError(f"option columns names a column twice: {text}")
    return chosen


def ddl(columns: Iterable[str]) -> str:
    """The schema as Spark reads it."""
    return ", ".join(f"`{name}` {COLUMN_TYPES[name]}" for name in columns)


def check_schema(fields: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The columns of a user's schema, given as names and types."""
    for name, kind in fields:
        expected = COLUMN_TYPES.get(name)
        if expected is None:
            raise OptionError(
                f"the schema has a column {name!r}; there are {', '.join(COLUMN_TYPES)}"
            )
        if kind != expected:
            raise OptionError(f"column {name!r} is of type {expected}, the schema says {kind}")
    return tuple(name for name, _ in fields)


def flags_of(columns: Iterable[str]) -> Columns:
    """What the decoder has to fill."""
    from kaa.records.arrow import Columns

    known = {
        "key": Columns.KEY,
        "value": Columns.VALUE,
        "partition": Columns.PARTITION,
        "timestamp": Columns.TIMESTAMP,
        "timestampType": Columns.TIMESTAMP_TYPE,
        HEADERS: Columns.HEADERS,
    }
    # Offsets cost little and give even a row without columns its number.
    flags = Columns.OFFSET
    for name in columns:
        flags |= known.get(name, Columns(0))
    return flags
