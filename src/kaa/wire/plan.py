"""Turns message classes into plans for the compiled decoder and encoder, where they were built.

The compiled ones (`_kernel`) and the generated Python ones (`decoder`, `encoder`) are twins: the
same messages, the same refusals. The functions here return None where only the second are there: no
C compiler when Kaa was installed, or KAA_PURE_PYTHON set when it was imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.twins import compiled
from kaa.wire.decoder import smallest_size
from kaa.wire.schema import RECORDS, Fixed, Struct, fields_of

if TYPE_CHECKING:
    from kaa.wire._kernel import EncodePlan
    from kaa.wire.decoder import Decoder
    from kaa.wire.schema import Field, Message

kernel: Final = compiled("kaa.wire._kernel")
KERNEL_NAME: Final = "python" if kernel is None else "cython"

# The numbers of `Kind` in `_kernel.pyx`.
_FIXED_KINDS: Final = {
    name: number
    for number, name in enumerate(
        ("int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "bool", "uuid")
    )
}
_STRING, _BYTES, _RECORDS, _STRUCT, _ABSENT, _ABSENT_FRESH = range(9, 15)


def compile_plan(message: type[Message], version: int) -> Decoder | None:
    """A decoder that runs in C, or None."""
    if kernel is None:
        return None
    decoder: Decoder = _struct_plan(message, version, version in message.flexible_versions).decode
    return decoder


def _struct_plan(struct_class: type[Struct], version: int, is_flexible: bool) -> Any:
    assert kernel is not None
    fields, tagged = [], []
    for field in fields_of(struct_class):
        if is_flexible and version in field.tagged:
            tagged.append(_present(field, version, is_flexible))
            fields.append(_absent(field))
        elif version in field.versions:
            fields.append(_present(field, version, is_flexible))
        else:
            fields.append(_absent(field))
    return kernel.StructPlan(struct_class, fields, tagged, is_flexible)


def _present(field: Field, version: int, is_flexible: bool) -> tuple[Any, ...]:
    kind = _kind(field)
    plan = _struct_plan(field.element, version, is_flexible) if kind == _STRUCT else None
    compact = is_flexible and field.flexible
    size_min = smallest_size(field, version, is_flexible=compact) if field.is_array else 0
    nullable = version in field.nullable
    tag = field.tag if is_flexible and version in field.tagged else -1
    return (field.name, kind, field.is_array, nullable, compact, size_min, tag, None, plan)


def _kind(field: Field) -> int:
    element = field.element
    if isinstance(element, Fixed):
        return _FIXED_KINDS[element.name]
    if isinstance(element, type) and issubclass(element, Struct):
        return _STRUCT
    if element is RECORDS:
        return _RECORDS
    return _STRING if element is str else _BYTES


def _absent(field: Field) -> tuple[Any, ...]:
    kind, default = _ABSENT, field.default
    if isinstance(default, list | Struct):
        kind, default = _ABSENT_FRESH, type(default)
    return (field.name, kind, False, False, False, 0, -1, default, None)


# The numbers of `Default` in `_kernel_encode.pxi`.
_ALWAYS, _NONE, _EMPTY, _EMPTY_NOT_NONE, _TRUE, _EQUAL, _NONE_OR_EQUAL = range(7)


def compile_encode_plan(message: type[Message], version: int) -> EncodePlan | None:
    """A plan whose encoders run in C, or None."""
    if kernel is None:
        return None
    plan: EncodePlan = _encode_plan(message, version, version in message.flexible_versions)
    return plan


def _encode_plan(struct_class: type[Struct], version: int, is_flexible: bool) -> Any:
    assert kernel is not None
    fields, tagged = [], []
    for field in fields_of(struct_class):
        if is_flexible and version in field.tagged:
            tagged.append(_written(field, version, is_flexible, *_unless(field, version)))
        elif version in field.versions:
            fields.append(_written(field, version, is_flexible, _ALWAYS, None))
        elif not field.ignorable:
            unless, default = _unless(field, None)
            fields.append((field.name, 0, False, False, False, unless, -1, default, None))
    return kernel.EncodePlan(struct_class, fields, tagged, is_flexible)


def _written(
    field: Field, version: int, is_flexible: bool, unless: int, default: object
) -> tuple[Any, ...]:
    kind = _kind(field)
    plan = _encode_plan(field.element, version, is_flexible) if kind == _STRUCT else None
    compact = is_flexible and field.flexible
    nullable = version in field.nullable
    # A nullable struct is marked otherwise where it is tagged.
    tag = field.tag if unless != _ALWAYS else -1
    return (field.name, kind, field.is_array, nullable, compact, unless, tag, default, plan)


def _unless(field: Field, tagged_version: int | None) -> tuple[int, object]:
    """How to see that a field is set: a number of `Default`, and what to compare with. As Kafka, a
    tagged struct that equals its default is left out.
    """
    default = field.default
    is_struct = field.is_struct and not field.is_array
    if tagged_version is not None and is_struct and tagged_version not in field.nullable:
        return _NONE_OR_EQUAL, field.element()
    if default is None:
        return _NONE, None
    if isinstance(default, Struct):
        return _EQUAL, type(default)()
    if default is False or default in ([], "", b""):
        return (_EMPTY_NOT_NONE if field.nullable.high >= 0 else _EMPTY), None
    return (_TRUE, None) if default is True else (_EQUAL, default)
