"""Arrays brought into the shape of a table's columns: fields by name, types widened, all nullable.

Records of one topic may have been written with several versions of a schema. Each is decoded by its
own, and what comes out is conformed to the columns that the reader was planned with: a field that
the writer did not know is null or has its default, a field that the reader does not know is left
out, a narrower number is widened. What does not fit raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.spark.formats.untyped import pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.spark.formats.untyped import Array, DataType, StructArray, StructType

    Defaults = Mapping[tuple[str, ...], object]


def list_of(item: DataType) -> DataType:
    """A list as Spark names its parts."""
    return pa.list_(pa.field("element", item))


def struct_of(fields: Mapping[str, DataType]) -> StructType:
    """A struct of these fields, in their order."""
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


def nullable(kind: DataType) -> DataType:
    """The type with every part nullable, lists and maps with Spark's names, times in microseconds.

    Spark takes a batch only if it has just these types.
    """
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, nullable(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(nullable(kind.key_type), nullable(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return list_of(nullable(kind.value_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    unsigned = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    if kind == pa.uint64():
        return pa.decimal128(20, 0)
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return pa.int64()
    return unsigned.get(kind, kind)


def conform(
    array: Array, kind: DataType, defaults: Defaults | None = None, path: tuple[str, ...] = ()
) -> Array:
    """The array as `kind`; `defaults` has the values of fields that the writer did not have."""
    if array.type == kind and not pa.types.is_nested(kind):
        return array
    if isinstance(array, pa.StructArray) and pa.types.is_struct(kind):
        return _conform_struct(array, kind, defaults or {}, path)
    if isinstance(array, pa.MapArray) and pa.types.is_map(kind):
        entries = pa.struct([pa.field("key", kind.key_type, False), ("value", kind.item_type)])
        flat = pa.StructArray.from_arrays(
            [
                conform(array.keys, kind.key_type, defaults, path),
                conform(array.items, kind.item_type, defaults, path),
            ],
            fields=list(entries),
        )
        return with_child(array, kind, flat)
    if isinstance(array, pa.ListArray) and pa.types.is_list(kind):
        return with_child(array, kind, conform(array.values, kind.value_type, defaults, path))
    if pa.types.is_time(array.type) or pa.types.is_duration(array.type):
        array = array.view(pa.int64()) if array.type.bit_width == 64 else array.view(pa.int32())
    return array.cast(kind)


def with_child(array: Array, kind: DataType, child: Array) -> Array:
    """A list or map with other items at the same places."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        kind, len(array), [validity, offsets], array.null_count, array.offset, [child]
    )


def _conform_struct(
    array: StructArray, kind: StructType, defaults: Defaults, path: tuple[str, ...]
) -> StructArray:
    names = {field.name: index for index, field in enumerate(array.type)}
    children: list[Array] = []
    for field in kind:
        here = (*path, field.name)
        if field.name in names:
            # `field` of an array gives the child without the offset and validity of the parent.
            child = array.field(names[field.name])
            children.append(conform(child, field.type, defaults, here))
        else:
            default = pa.scalar(defaults.get(here), field.type)
            children.append(pa.repeat(default, len(array)))
    mask = array.is_null() if array.null_count else None
    if not children:
        return array.cast(kind)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def widened(first: DataType, second: DataType) -> DataType | None:
    """The type that holds the values of both, or None."""
    if first == second:
        return first
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        return _widened_struct(first, second)
    if pa.types.is_list(first) and pa.types.is_list(second):
        item = widened(first.value_type, second.value_type)
        return None if item is None else list_of(item)
    numbers: list[DataType] = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    floats: list[DataType] = [pa.float32(), pa.float64()]
    for ladder in (numbers, floats):
        if first in ladder and second in ladder:
            return max(first, second, key=ladder.index)
    if {first, second} <= {*numbers, *floats}:
        return pa.float64() if pa.int64() not in {first, second} else None
    are_decimals = pa.types.is_decimal128(first) and pa.types.is_decimal128(second)
    if are_decimals and first.scale == second.scale:
        return max(first, second, key=lambda kind: kind.precision)
    return None


def _widened_struct(first: StructType, second: StructType) -> StructType | None:
    fields = {field.name: field.type for field in first}
    for field in second:
        both = widened(fields[field.name], field.type) if field.name in fields else field.type
        if both is None:
            return None
        fields[field.name] = both
    return struct_of(fields)
