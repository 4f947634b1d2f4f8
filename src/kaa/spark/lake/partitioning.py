"""The parts of a table: `day(timestamp), bucket(16, key), country`.

Each term is the name of a column, or one of the transforms of Iceberg, with the same results:
`year`, `month`, `day` and `hour` of a timestamp or date count from 1970, `bucket(n,
column)` is the Murmur3 hash of the value modulo n. Null belongs to the part null.

Rows are divided by looking at distinct values only, so that a batch of one day costs next to
nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from kaa.spark.formats.untyped import pa, pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.spark.formats.untyped import Array, RecordBatch, Schema

_TERM: Final = re.compile(r"(?:(\w+)\(\s*(?:(\d+)\s*,\s*)?([\w.]+)\s*\)|([\w.]+))\s*(?:,|$)")
_UNITS_US: Final = {"hour": 3_600_000_000, "day": 86_400_000_000}
TRANSFORMS: Final = ("year", "month", "day", "hour", "bucket", "identity")

Part = tuple[Any, ...]
"""The values of a part, one for each term: numbers, or values of the column itself."""


class PartitionError(ValueError):
    """Terms that cannot be read or do not fit the columns."""


@dataclass(frozen=True, slots=True)
class Term:
    """One part of the partitioning."""

    transform: str
    column: str
    buckets: int = 0
    # The name of the field, if it is not the usual one; it does not make another term.
    field: str = dataclass_field(default="", compare=False)

    @property
    def name(self) -> str:
        """The name of the field, as Iceberg's engines choose it."""
        if self.field:
            return self.field
        if self.transform == "identity":
            return self.column
        return f"{self.column}_{self.transform}"

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        inner = f"{self.buckets}, {self.column}" if self.buckets else self.column
        return f"{self.transform}({inner})"


def parse_terms(text: str) -> tuple[Term, ...]:
    """The terms of a partitioning; none for an empty text."""
    terms: list[Term] = []
    at, text = 0, text.strip()
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None:
            raise PartitionError(
                f"cannot read the partitioning from {text[at:]!r}; write for example "
                "day(timestamp), bucket(16, key), country"
            )
        transform, buckets, inner, plain = match.groups()
        transform = (transform or "identity").lower()
        if transform not in TRANSFORMS:
            raise PartitionError(f"{transform!r} is not one of {', '.join(TRANSFORMS)}")
        if (transform == "bucket") != (buckets is not None):
            raise PartitionError("bucket takes a number and a column, the others a column")
        terms.append(Term(transform, inner or plain, int(buckets or 0)))
        at = match.end()
        while at < len(text) and text[at].isspace():
            at += 1
    return tuple(terms)


def check_terms(terms: tuple[Term, ...], schema: Schema) -> None:
    """Raises if a term names a column that is not there or has no such transform."""
    for term in terms:
        if term.column not in schema.names:
            raise PartitionError(
                f"there is no column {term.column!r} to partition by; "
                f"there are {', '.join(schema.names)}"
            )
        kind = schema.field(term.column).type
        is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        if term.transform in {"year", "month", "day", "hour"} and not is_time:
            raise PartitionError(f"{term}: the column is {kind}, not a time")
        if pa.types.is_nested(kind):
            raise PartitionError(f"{term}: a column of type {kind} cannot be a part")


def divide(batch: RecordBatch, terms: tuple[Term, ...]) -> Iterator[tuple[Part, RecordBatch]]:
    """The rows of each part, in their order."""
    if not terms:
        yield (), batch
        return
    numbers = None
    parts: list[Part] = [()]
    for term in terms:
        coded = _values(batch.column(term.column), term).dictionary_encode("encode")
        values = coded.dictionary.to_pylist()
        parts = [(*part, value) for part in parts for value in values]
        codes = coded.indices.cast(pa.int64())
        if numbers is None:
            numbers = codes
        else:
            numbers = pc.add(pc.multiply(numbers, pa.scalar(len(values))), codes)
    present = pc.unique(numbers).to_pylist()
    if len(present) == 1:
        yield parts[present[0]], batch
        return
    for number in present:
        yield parts[number], batch.filter(pc.equal(numbers, pa.scalar(number)))


def _values(column: Array, term: Term) -> Array:
    if term.transform == "identity":
        return column
    if term.transform == "bucket":
        return _buckets(column, term.buckets)
    if term.transform == "year":
        return pc.subtract(pc.year(column).cast(pa.int32()), pa.scalar(1970, pa.int32()))
    if term.transform == "month":
        years = pc.subtract(pc.year(column), pa.scalar(1970))
        months = pc.add(pc.multiply(years, pa.scalar(12)), pc.month(column))
        return pc.subtract(months, pa.scalar(1)).cast(pa.int32())
    if pa.types.is_date(column.type):
        days = column.cast(pa.int32())
        return days if term.transform == "day" else pc.multiply(days, pa.scalar(24, pa.int32()))
    stamps = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    unit = _UNITS_US[term.transform]
    # Rounded down, also before 1970.
    rest = pc.subtract(stamps, pc.multiply(pc.divide(stamps, pa.scalar(unit)), pa.scalar(unit)))
    borrowed = pc.if_else(pc.less(rest, pa.scalar(0)), pa.scalar(1), pa.scalar(0))
    return pc.subtract(pc.divide(stamps, pa.scalar(unit)), borrowed).cast(pa.int32())


def _buckets(column: Array, count: int) -> Array:
    coded = column.dictionary_encode()
    hashes = [
        None if value is None else (bucket_hash(value) & 0x7FFFFFFF) % count
        for value in coded.dictionary.to_pylist()
    ]
    return pa.array(hashes, pa.int32()).take(coded.indices)


def bucket_hash(value: Any) -> int:
    """Murmur3 of a value in the form that Iceberg says for its type."""
    import mmh3

    if isinstance(value, str):
        value = value.encode()
    elif isinstance(value, bool):
        raise PartitionError("a boolean cannot be divided into buckets")
    elif isinstance(value, datetime):
        value = _epoch_us(value).to_bytes(8, "little", signed=True)
    elif isinstance(value, date):
        value = (value - date(1970, 1, 1)).days.to_bytes(8, "little", signed=True)
    elif isinstance(value, int):
        value = value.to_bytes(8, "little", signed=True)
    if not isinstance(value, bytes):
        raise PartitionError(f"a {type(value).__name__} cannot be divided into buckets")
    return int(mmh3.hash(value))


def _epoch_us(value: datetime) -> int:
    epoch = datetime(1970, 1, 1, tzinfo=value.tzinfo)
    delta = value - epoch
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def folder_of(terms: tuple[Term, ...], part: Part) -> str:
    """The folder of a part, `timestamp_day=2024-02-29/...`, empty without terms."""
    from urllib.parse import quote

    pieces = []
    for term, value in zip(terms, part, strict=True):
        shown = "__HIVE_DEFAULT_PARTITION__" if value is None else str(_shown(term, value))
        pieces.append(f"{quote(term.name)}={quote(shown, safe='')}")
    return "/".join(pieces)


def _shown(term: Term, value: Any) -> Any:
    if term.transform == "day":
        return date.fromordinal(value + date(1970, 1, 1).toordinal())
    if term.transform == "hour":
        day = date.fromordinal(value // 24 + date(1970, 1, 1).toordinal())
        return f"{day}-{value % 24:02}"
    if term.transform == "month":
        return f"{1970 + value // 12}-{value % 12 + 1:02}"
    if term.transform == "year":
        return 1970 + value
    if isinstance(value, bytes):
        return value.hex()
    return value
