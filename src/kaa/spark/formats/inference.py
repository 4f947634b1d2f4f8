"""The columns of JSON values that nobody has described, found by looking at them.

| what was seen at one place | column |
|---|---|
| whole numbers of 64 bits | bigint; double with `jsonNumbers=double` |
| other numbers, also among whole ones | double |
| true, false | boolean |
| text | string; dates and times stay text |
| objects | struct of what was seen in them |
| arrays | list of what was seen in them |
| any two of these | string: text as it is, the rest as its JSON text |
| null, `{}` and `[]` alone | none, until there is something in it |

An object that is nested too deep, or that has more names than a struct should have (ids as names,
for instance), is a string with its JSON text as well. Of names that differ by the case of their
letters alone the first is taken, since Spark does not tell them apart.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.limits import FORMAT_INFERRED_DEPTH_MAX, FORMAT_INFERRED_FIELDS_MAX
from kaa.spark.formats.conform import list_of, struct_of
from kaa.spark.formats.untyped import pa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.spark.formats.untyped import DataType, StructType

_NUMBERS: Final = frozenset({pa.int64(), pa.float64()})
_INT64_END: Final = 2**63


class Inferred(NamedTuple):
    """What values look like: the columns of those that are JSON objects."""

    type: StructType
    objects: int
    others: int

    @property
    def is_json(self) -> bool:
        """Whether most of the values are objects; what is not is a bad record then."""
        return self.objects > self.others


def infer(values: Iterable[bytes | None]) -> Inferred:
    """Looks at values; tombstones say nothing."""
    found: DataType = pa.null()
    objects = others = 0
    for value in values:
        if value is None:
            continue
        try:
            row = json.loads(value)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            others += 1
            continue
        objects += 1
        found = joined(found, _type_of(row, 0))
    kept = settled(found)
    # An object of too many names is a string, and has no columns.
    return Inferred(kept if _is_struct(kept) else struct_of({}), objects, others)


def joined(first: DataType, second: DataType) -> DataType:
    """The type of a place at which both were seen."""
    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if _is_struct(first) and _is_struct(second):
        fields = {one.name: one.type for one in first}
        for one in second:
            fields[one.name] = joined(fields.get(one.name, pa.null()), one.type)
        return _struct(fields)
    if pa.types.is_list(first) and pa.types.is_list(second):
        return list_of(joined(first.value_type, second.value_type))
    return pa.float64() if {first, second} <= _NUMBERS else pa.string()


def settled(kind: DataType) -> DataType | None:
    """The type without places at which nothing was seen; None if there is no other."""
    if _is_struct(kind):
        fields: dict[str, DataType] = {}
        taken: set[str] = set()
        for one in kind:
            part = settled(one.type)
            if part is not None and one.name.lower() not in taken:
                taken.add(one.name.lower())
                fields[one.name] = part
        return struct_of(fields) if fields else None
    if pa.types.is_list(kind):
        item = settled(kind.value_type)
        return None if item is None else list_of(item)
    return None if pa.types.is_null(kind) else kind


def grown(known: DataType, seen: DataType) -> DataType:
    """The known type with the places that are new in what was seen.

    Types stay what they are: a table cannot make text out of numbers, nor doubles out of integers.
    """
    if _is_struct(known) and _is_struct(seen):
        fields = {one.name: one.type for one in known}
        names = {name.lower(): name for name in fields}
        for one in seen:
            name = names.setdefault(one.name.lower(), one.name)
            if name not in fields:
                fields[name] = one.type
            elif name == one.name:
                fields[name] = grown(fields[name], one.type)
        return struct_of(fields)
    if pa.types.is_list(known) and pa.types.is_list(seen):
        return list_of(grown(known.value_type, seen.value_type))
    return known


def has_more(known: DataType, seen: DataType) -> bool:
    """Whether something was seen at a place that is not known."""
    kept = settled(seen)
    return kept is not None and grown(known, kept) != grown(known, pa.null())


def with_doubles(kind: DataType) -> DataType:
    """The type with every number a double."""
    if _is_struct(kind):
        return struct_of({one.name: with_doubles(one.type) for one in kind})
    if pa.types.is_list(kind):
        return list_of(with_doubles(kind.value_type))
    return pa.float64() if kind == pa.int64() else kind


def _type_of(value: Any, depth: int) -> DataType:
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -_INT64_END <= value < _INT64_END else pa.float64()
        case float():
            return pa.float64()
        case str():
            return pa.string()
    if depth >= FORMAT_INFERRED_DEPTH_MAX:
        return pa.string()
    if isinstance(value, dict):
        return _struct({name: _type_of(part, depth + 1) for name, part in value.items()})
    item: DataType = pa.null()
    for part in value:
        item = joined(item, _type_of(part, depth + 1))
    return list_of(item)


def _struct(fields: dict[str, DataType]) -> DataType:
    return pa.string() if len(fields) > FORMAT_INFERRED_FIELDS_MAX else struct_of(fields)


def _is_struct(kind: DataType | None) -> bool:
    return kind is not None and bool(pa.types.is_struct(kind))
