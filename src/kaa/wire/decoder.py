"""Writes the decoder of one version of a message.

A decoder is a function of (buffer, position, end, budget, tags_max) that returns the message and
the position after it. It works on `bytes`, unless the message has a records field: then it works on
a view, and that field is a slice of it. `budget` is the number of array elements and tagged fields
that the whole message may still have. On bad bytes it raises WireError, or lets IndexError,
struct.error or UnicodeDecodeError through for `Codec` to translate.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaa.wire.schema import RECORDS, Fixed, Struct, fields_of
from kaa.wire.source import FunctionSource, default_text

if TYPE_CHECKING:
    from kaa.wire.schema import Field, Message

Decoder = Callable[[Any, int, int, int, int], tuple[Any, int]]


def compile_decoder(message: type[Message], version: int) -> Decoder:
    """A function (buffer, position, end, budget, tags_max) -> (message, position)."""
    source = FunctionSource("decode(buf, p, end, budget, tags_max)")
    writer = _DecoderWriter(source, message, version)
    source.line(f"o = new({source.bind('C', message)})")
    writer.struct(message, "o")
    source.line("return o, p")
    decoder: Decoder = source.compiled()
    return decoder


def has_records(struct_class: type[Struct], version: int) -> bool:
    return any(
        field.element is RECORDS or (field.is_struct and has_records(field.element, version))
        for field in fields_of(struct_class)
        if version in field.versions
    )


class _DecoderWriter:
    """Writes the body of a decoder; `pending` holds fixed-width targets not yet unpacked."""

    def __init__(self, source: FunctionSource, message: type[Message], version: int) -> None:
        self.source = source
        self.version = version
        self.is_flexible = version in message.flexible_versions
        self.is_view = has_records(message, version)
        self.pending: list[tuple[str, str]] = []
        self.after: list[str] = []

    def struct(self, struct_class: type[Struct], target: str) -> None:
        """Reads all fields of a struct into the object named `target`."""
        source, fields = self.source, fields_of(struct_class)
        tagged = []
        for field in fields:
            if self.version in field.tagged and self.is_flexible:
                tagged.append(field)
            elif self.version in field.versions:
                self.field(field, f"{target}.{field.name}")
                continue
            self.flush()
            source.line(f"{target}.{field.name} = {default_text(source, field)}")
        self.flush()
        source.line(f"{target}.unknown_tags = None")
        if self.is_flexible:
            self.tags(tagged, target)

    def field(self, field: Field, target: str) -> None:
        fixed = field.fixed
        if fixed is not None:
            self.fixed(fixed, target)
        elif field.is_array:
            self.array(field, target)
        elif field.is_struct:
            self.nested(field, target)
        else:
            self.variable(field, target)

    def fixed(self, fixed: Fixed, target: str) -> None:
        if fixed.name == "uuid":
            raw = self.source.fresh("u")
            self.pending.append((fixed.letter, raw))
            self.after.append(f"{target} = Uuid({raw})")
        else:
            self.pending.append((fixed.letter, target))

    def flush(self) -> None:
        """Unpacks the pending fixed-width fields with one call."""
        if not self.pending:
            return
        letters = "".join(letter for letter, _ in self.pending)
        targets = ", ".join(target for _, target in self.pending)
        comma = "," if len(self.pending) == 1 else ""
        unpack = self.source.struct_method(letters, "unpack_from")
        self.source.line(f"{targets}{comma} = {unpack}(buf, p)")
        self.source.line(f"p += {struct.calcsize('>' + letters)}")
        self.pending.clear()
        for line in self.after:
            self.source.line(line)
        self.after.clear()

    def length(self, letter: str, *, compact: bool) -> str:
        """Reads a length or count into a fresh name; -1 stands for null in both encodings."""
        name = self.source.fresh("n")
        if not compact:
            self.pending.append((letter, name))
            self.flush()
            return name
        self.flush()
        self.source.line(f"{name} = buf[p] - 1")
        self.source.line("p += 1")
        self.source.line(f"if {name} > 126:")
        self.source.line(f"    {name}, p = uvarint(buf, p - 1)")
        self.source.line(f"    {name} -= 1")
        return name

    def null(self, field: Field, count: str, target: str) -> None:
        """Handles a negative length; what follows stands in the branch for a present value."""
        line = self.source.line
        line(f"if {count} < 0:")
        if self.version in field.nullable:
            line(f"    if {count} != -1: raise WireError('{field.name} has a negative length')")
            line(f"    {target} = None")
        else:
            line(f"    raise WireError('{field.name} is null or has a negative length')")
        line("else:")
        self.source.indent += 1

    def variable(self, field: Field, target: str) -> None:
        """A string, bytes or records field."""
        line = self.source.line
        compact = self.is_flexible and field.flexible
        count = self.length("h" if field.element is str else "i", compact=compact)
        self.null(field, count, target)
        self.check_room(field, count)
        line(f"{target} = {self.slice_text(field.element)}")
        line("p = e")
        self.source.indent -= 1

    def check_room(self, field: Field, count: str) -> None:
        line = self.source.line
        if field.element is str:
            line(f"if {count} > STRING_MAX: raise WireError('{field.name} is too long')")
        line(f"e = p + {count}")
        line(f"if e > end: raise WireError('{field.name} is cut short')")

    def slice_text(self, element: object) -> str:
        if element is RECORDS:
            return "buf[p:e]"
        if element is str:
            return "str(buf[p:e], 'utf-8')" if self.is_view else "buf[p:e].decode()"
        return "bytes(buf[p:e])" if self.is_view else "buf[p:e]"

    def nested(self, field: Field, target: str) -> None:
        """A struct in place: a nullable one has a byte before it, which for null is negative, or 0
        in a tagged field.
        """
        source = self.source
        self.flush()
        nullable = self.version in field.nullable
        if nullable:
            is_null = "== 0" if self.version in field.tagged else "> 127"
            source.line("p += 1")
            source.line(f"if buf[p - 1] {is_null}:")
            source.line(f"    {target} = None")
            source.line("else:")
            source.indent += 1
        self.new_struct(field.element, target)
        if nullable:
            source.indent -= 1

    def new_struct(self, struct_class: type[Struct], target: str) -> None:
        name = self.source.fresh("o")
        self.source.line(f"{name} = {target} = new({self.source.bind('C', struct_class)})")
        self.struct(struct_class, name)

    def array(self, field: Field, target: str) -> None:
        source, line = self.source, self.source.line
        compact = self.is_flexible and field.flexible
        count = self.length("i", compact=compact)
        self.null(field, count, target)
        smallest = smallest_size(field, self.version, is_flexible=compact)
        line(f"budget -= {count}")
        line(f"if budget < 0 or {count} * {smallest} > end - p:")
        line(f"    raise WireError('{field.name} has more elements than its bytes can hold')")
        element = field.element
        if isinstance(element, Fixed):
            self.fixed_elements(element, count, target)
        else:
            items = source.fresh("a")
            line(f"{target} = {items} = []")
            line(f"for _ in range({count}):")
            source.indent += 1
            if isinstance(element, type) and issubclass(element, Struct):
                name = source.fresh("o")
                line(f"{name} = new({source.bind('C', element)})")
                line(f"{items}.append({name})")
                self.struct(element, name)
            else:
                self.variable_element(field, items, compact=compact)
            source.indent -= 1
        source.indent -= 1

    def fixed_elements(self, element: Fixed, count: str, target: str) -> None:
        line = self.source.line
        if element.name == "uuid":
            line(f"e = p + 16 * {count}")
            line(f"{target} = [Uuid(buf[i:i + 16]) for i in range(p, e, 16)]")
            line("p = e")
        else:
            line(f"{target} = list(unpack_from(f'>{{{count}}}{element.letter}', buf, p))")
            line(f"p += {element.size} * {count}")

    def variable_element(self, field: Field, items: str, *, compact: bool) -> None:
        """One string or bytes of an array; elements are never null."""
        line = self.source.line
        count = self.length("h" if field.element is str else "i", compact=compact)
        line(f"if {count} < 0: raise WireError('{field.name} has a null element')")
        self.check_room(field, count)
        line(f"{items}.append({self.slice_text(field.element)})")
        line("p = e")

    def tags(self, tagged: list[Field], target: str) -> None:
        """The tagged-field section; nearly always one zero byte."""
        source, line = self.source, self.source.line
        count, tag, size, stop = (source.fresh(stem) for stem in ("n", "t", "s", "x"))
        line(f"{count} = buf[p]")
        line("p += 1")
        line(f"if {count}:")
        source.indent += 1
        line(f"if {count} > 127: {count}, p = uvarint(buf, p - 1)")
        line(f"budget -= {count}")
        line(f"if {count} > tags_max or budget < 0 or {count} * 2 > end - p:")
        line("    raise WireError('there are more tagged fields than allowed')")
        line(f"for _ in range({count}):")
        source.indent += 1
        line(f"{tag}, p = uvarint(buf, p)")
        line(f"{size}, p = uvarint(buf, p)")
        line(f"{stop} = p + {size}")
        line(f"if {stop} > end: raise WireError('a tagged field is cut short')")
        word = "if"
        for field in tagged:
            line(f"{word} {tag} == {field.tag}:")
            word = "elif"
            source.indent += 1
            self.field(field, f"{target}.{field.name}")
            self.flush()
            line(f"if p != {stop}: raise WireError('tagged field {field.name} has a wrong size')")
            source.indent -= 1
        if tagged:
            line("else:")
            source.indent += 1
        line(f"if {target}.unknown_tags is None: {target}.unknown_tags = {{}}")
        line(f"{target}.unknown_tags[{tag}] = bytes(buf[p:{stop}])")
        line(f"p = {stop}")
        source.indent -= 3 if tagged else 2


def smallest_size(field: Field, version: int, *, is_flexible: bool) -> int:
    """The fewest bytes one element of the array `field` can take, at least 1."""
    element = field.element
    if isinstance(element, Fixed):
        return element.size
    if isinstance(element, type) and issubclass(element, Struct):
        return max(1, _smallest_struct(element, version, is_flexible=is_flexible))
    if is_flexible:
        return 1
    return 2 if element is str else 4


def _smallest_struct(struct_class: type[Struct], version: int, *, is_flexible: bool) -> int:
    size = 1 if is_flexible else 0
    for field in fields_of(struct_class):
        if version not in field.versions or (is_flexible and version in field.tagged):
            continue
        if field.fixed is not None:
            size += field.fixed.size
        elif field.is_struct and not field.is_array:
            nullable = version in field.nullable
            inner = _smallest_struct(field.element, version, is_flexible=is_flexible)
            size += 1 if nullable else inner
        elif is_flexible and field.flexible:
            size += 1
        else:
            size += 2 if field.element is str and not field.is_array else 4
    return size
