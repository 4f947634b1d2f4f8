"""Writes the encoder of one version of a message.

An encoder is a function of (message, out, splices) that appends to the bytearray `out`. Records are
not copied into it: each is noted in `splices` with the position where it belongs. A field that the
version lacks must be ignorable or have its default, or WireError is raised, so that nothing is lost
in silence.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaa.wire.schema import RECORDS, Fixed, Struct, fields_of
from kaa.wire.source import FunctionSource, default_text

if TYPE_CHECKING:
    from kaa.wire.schema import Field, Message

Encoder = Callable[[Any, bytearray, list[tuple[int, Any]]], None]


def compile_encoder(message: type[Message], version: int) -> Encoder:
    """A function (message, out, splices) that appends the message."""
    source = FunctionSource("encode(o, w, splices)")
    _EncoderWriter(source, message, version).struct(message, "o")
    encoder: Encoder = source.compiled()
    return encoder


class _EncoderWriter:
    """Writes the body of an encoder; `pending` holds fixed-width values not yet packed."""

    def __init__(self, source: FunctionSource, message: type[Message], version: int) -> None:
        self.source = source
        self.version = version
        self.valid = message.valid_versions
        self.is_flexible = version in message.flexible_versions
        self.pending: list[tuple[str, str]] = []
        self.out = "w"

    def struct(self, struct_class: type[Struct], target: str) -> None:
        """Writes all fields of the struct named `target`."""
        tagged = []
        for field in fields_of(struct_class):
            value = f"{target}.{field.name}"
            if self.version in field.tagged and self.is_flexible:
                tagged.append(field)
            elif self.version in field.versions:
                self.field(field, value)
            elif not field.ignorable:
                self.refuse(field, value)
        if self.is_flexible:
            self.tags(tagged, target)
        else:
            self.flush()
            self.source.line(f"if {target}.unknown_tags:")
            self.source.line("    raise WireError('this version has no tagged fields')")

    def refuse(self, field: Field, value: str) -> None:
        """A field that this version lacks must have its default, or be lost without a word."""
        self.source.line(f"if {self.is_set(field, value)}:")
        self.source.line(f"    raise WireError('this version cannot carry {field.name}')")

    def is_set(self, field: Field, value: str) -> str:
        """An expression: the value differs from the default."""
        default = field.default
        if default is None:
            return f"{value} is not None"
        if isinstance(default, Struct):
            return f"{value} != {default_text(self.source, field)}"
        if default is False or default in ([], "", b""):
            # None is not the default of a nullable field that defaults to empty.
            return f"{value} or {value} is None" if field.nullable.high >= 0 else value
        if default is True:
            return f"not {value}"
        return f"{value} != {default_text(self.source, field)}"

    def field(self, field: Field, value: str) -> None:
        fixed = field.fixed
        if fixed is not None:
            self.pending.append((fixed.letter, value))
        elif field.is_array:
            self.array(field, value)
        elif field.is_struct:
            self.nested(field, value)
        else:
            self.variable(field, value)

    def flush(self) -> None:
        """Packs the pending fixed-width values with one call."""
        if not self.pending:
            return
        letters = "".join(letter for letter, _ in self.pending)
        values = ", ".join(value for _, value in self.pending)
        pack = self.source.struct_method(letters, "pack")
        self.source.line(f"{self.out} += {pack}({values})")
        self.pending.clear()

    def length(self, letter: str, expression: str, *, compact: bool) -> None:
        """Writes a length or count; in the compact form it is one more than the value."""
        line = self.source.line
        if not compact:
            self.pending.append((letter, expression))
            self.flush()
            return
        self.flush()
        name = self.source.fresh("n")
        line(f"{name} = {expression} + 1")
        line(f"if {name} < 128: {self.out}.append({name})")
        line(f"else: put_uvarint({self.out}, {name})")

    def null(self, field: Field, value: str, letter: str, *, compact: bool) -> None:
        """Writes the null form and leaves the generator inside the branch for a present value."""
        if self.version not in field.nullable:
            return
        # Both branches start at the same place, so what is pending is packed before they part.
        self.flush()
        self.source.line(f"if {value} is None:")
        null = b"\0" if compact else struct.pack(">" + letter, -1)
        self.source.line(f"    {self.out} += {null!r}")
        self.source.line("else:")
        self.source.indent += 1

    def end_null(self, field: Field) -> None:
        self.flush()
        if self.version in field.nullable:
            self.source.indent -= 1

    def variable(self, field: Field, value: str) -> None:
        """A string, bytes or records field."""
        line = self.source.line
        compact = self.is_flexible and field.flexible
        letter = "h" if field.element is str else "i"
        self.null(field, value, letter, compact=compact)
        name = self.source.fresh("v")
        if field.element is str:
            line(f"{name} = {value}.encode()")
            line(f"if len({name}) > STRING_MAX: raise WireError('{field.name} is too long')")
        else:
            line(f"{name} = {value}")
        self.length(letter, f"len({name})", compact=compact)
        if field.element is RECORDS:
            line(f"splices.append((len({self.out}), {name}))")
        else:
            line(f"{self.out} += {name}")
        self.end_null(field)

    def nested(self, field: Field, value: str) -> None:
        source = self.source
        nullable = self.version in field.nullable
        name = source.fresh("o")
        if nullable:
            self.flush()
            null = 0 if self.version in field.tagged else 255
            source.line(f"{name} = {value}")
            source.line(f"if {name} is None: {self.out}.append({null})")
            source.line("else:")
            source.indent += 1
            source.line(f"{self.out}.append(1)")
        else:
            source.line(f"{name} = {value}")
        self.struct(field.element, name)
        self.end_null(field)

    def array(self, field: Field, value: str) -> None:
        source, line = self.source, self.source.line
        compact = self.is_flexible and field.flexible
        self.null(field, value, "i", compact=compact)
        name = source.fresh("a")
        line(f"{name} = {value}")
        self.length("i", f"len({name})", compact=compact)
        element = field.element
        if isinstance(element, Fixed):
            if element.name == "uuid":
                line(f"{self.out} += b''.join({name})")
            else:
                line(f"{self.out} += pack(f'>{{len({name})}}{element.letter}', *{name})")
        else:
            item = source.fresh("i")
            line(f"for {item} in {name}:")
            source.indent += 1
            if isinstance(element, type) and issubclass(element, Struct):
                self.struct(element, item)
            else:
                self.variable_element(field, item, compact=compact)
            self.flush()
            source.indent -= 1
        self.end_null(field)

    def variable_element(self, field: Field, item: str, *, compact: bool) -> None:
        line = self.source.line
        if field.element is str:
            line(f"{item} = {item}.encode()")
            line(f"if len({item}) > STRING_MAX: raise WireError('{field.name} is too long')")
        self.length("h" if field.element is str else "i", f"len({item})", compact=compact)
        line(f"{self.out} += {item}")

    def tags(self, tagged: list[Field], target: str) -> None:
        """The tagged-field section: known fields that are set, and unknown ones that were kept."""
        source, line = self.source, self.source.line
        self.flush()
        if not tagged:
            line(f"if {target}.unknown_tags: put_tags({self.out}, [], {target}.unknown_tags)")
            line(f"else: {self.out}.append(0)")
            return
        known = source.fresh("k")
        line(f"{known} = []")
        for field in tagged:
            value = f"{target}.{field.name}"
            line(f"if {self.is_set_tagged(field, value)}:")
            source.indent += 1
            self.tag(field, value, known)
            source.indent -= 1
        line(f"if {known} or {target}.unknown_tags:")
        line(f"    put_tags({self.out}, {known}, {target}.unknown_tags)")
        line(f"else: {self.out}.append(0)")

    def is_set_tagged(self, field: Field, value: str) -> str:
        """As `is_set`; like Kafka, leaves out a tagged struct that equals its default."""
        if field.is_struct and not field.is_array and self.version not in field.nullable:
            plain = self.source.bind("D", field.element())
            return f"{value} is not None and {value} != {plain}"
        return self.is_set(field, value)

    def tag(self, field: Field, value: str, known: str) -> None:
        """One set tagged field, written into a buffer of its own because its size comes first."""
        outer, self.out = self.out, self.source.fresh("w")
        self.source.line(f"{self.out} = bytearray()")
        self.field(field, value)
        self.flush()
        self.source.line(f"{known}.append(({field.tag}, {self.out}))")
        self.out = outer
