"""Turns message classes into plans for the compiled decoder, where that was built.

The compiled decoder (`_kernel`) and the generated Python one (`decoder`) are twins: the same
messages, the same refusals. `compile_plan` returns None where only the second is there: no C
compiler when Kaa was installed, or KAA_PURE_PYTHON set when it was imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.twins import compiled
from kaa.wire.decoder import smallest_size
from kaa.wire.schema import RECORDS, Fixed, Struct, fields_of

if TYPE_CHECKING:
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
    element, plan = field.element, None
    if isinstance(element, Fixed):
        kind = _FIXED_KINDS[element.name]
    elif isinstance(element, type) and issubclass(element, Struct):
        kind, plan = _STRUCT, _struct_plan(element, version, is_flexible)
    elif element is RECORDS:
        kind = _RECORDS
    else:
        kind = _STRING if element is str else _BYTES
    compact = is_flexible and field.flexible
    size_min = smallest_size(field, version, is_flexible=compact) if field.is_array else 0
    nullable = version in field.nullable
    tag = field.tag if is_flexible and version in field.tagged else -1
    return (field.name, kind, field.is_array, nullable, compact, size_min, tag, None, plan)


def _absent(field: Field) -> tuple[Any, ...]:
    kind, default = _ABSENT, field.default
    if isinstance(default, list | Struct):
        kind, default = _ABSENT_FRESH, type(default)
    return (field.name, kind, False, False, False, 0, -1, default, None)
