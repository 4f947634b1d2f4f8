"""Writes Python functions: lines of text, and the objects that they refer to by name."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kaa import limits
from kaa.wire.primitives import (
    UUID_ZERO,
    Uuid,
    WireError,
    read_uvarint,
    write_tags,
    write_uvarint,
)
from kaa.wire.schema import Struct, fields_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.wire.schema import Field


class FunctionSource:
    """Lines of Python and the objects they name; becomes one function."""

    def __init__(self, signature: str) -> None:
        self.lines = [f"def {signature}:"]
        self.names: dict[str, Any] = {
            "WireError": WireError,
            "Uuid": Uuid,
            "UUID_ZERO": UUID_ZERO,
            "new": object.__new__,
            "uvarint": read_uvarint,
            "put_uvarint": write_uvarint,
            "put_tags": write_tags,
            "STRING_MAX": limits.WIRE_STRING_BYTES_MAX,
            "pack": struct.pack,
            "unpack_from": struct.unpack_from,
        }
        self.indent = 1
        self._serial = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, stem: str) -> str:
        """A local name that nothing else in this function uses."""
        self._serial += 1
        return f"{stem}{self._serial}"

    def bind(self, stem: str, value: object) -> str:
        """A name for `value` inside the function, the same one for the same value."""
        for name, bound in self.names.items():
            if bound is value:
                return name
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def struct_method(self, letters: str, method: str) -> str:
        """A name for `struct.Struct(letters).method`, shared by equal layouts."""
        name = f"{method}_{letters.replace('?', 'bool')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + letters), method)
        return name

    def compiled(self) -> Any:
        text = "\n".join(self.lines)
        # The text is made of our own message classes alone; nothing received is ever part of it.
        exec(compile(text, f"<kaa.wire {self.lines[0][4:]}>", "exec"), self.names)  # noqa: S102
        return self.names[self.lines[0].split("(")[0].removeprefix("def ")]


def default_text(source: FunctionSource, field: Field) -> str:
    """An expression for the field's default; a fresh object each time where it is mutable."""
    default = field.default
    if default == [] and isinstance(default, list):
        return "[]"
    if isinstance(default, Struct):
        return f"{source.bind('C', type(default))}()"
    if isinstance(default, Uuid):
        return "UUID_ZERO"
    return repr(default)


def compile_constructor(struct_class: type[Struct]) -> Callable[..., None]:
    """A keyword-only `__init__` with every field optional."""
    fields = fields_of(struct_class)
    source = FunctionSource("")
    parameters = []
    mutable = []
    for field in fields:
        text = default_text(source, field)
        if text.endswith(("[]", "()")):
            mutable.append((field.name, text))
            text = "UNSET"
        parameters.append(f"{field.name}={text}")
    source.names["UNSET"] = object()
    source.lines = [f"def __init__(self, *, {', '.join((*parameters, 'unknown_tags=None'))}):"]
    for name, text in mutable:
        source.line(f"if {name} is UNSET: {name} = {text}")
    for field in fields:
        source.line(f"self.{field.name} = {field.name}")
    source.line("self.unknown_tags = unknown_tags")
    constructor: Callable[..., None] = source.compiled()
    return constructor
