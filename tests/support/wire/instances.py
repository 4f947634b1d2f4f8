"""Instances of every message, drawn from a seed, for the proofs of `kaa.wire`.

What an instance is like is said by its `Shape`: with every field at its default, with every field
empty (or null where that is allowed), with every field set, or drawn field by field. Values are
drawn from the edges of their types far more often than chance would: the least and the greatest
integers, lengths around the borders of the varint, text outside of ASCII, null beside empty.

An instance never has a field that its version does not carry, so that reading its bytes gives it
back unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from random import Random
from typing import Any

from kaa.wire import Uuid
from kaa.wire.messages import __path__ as messages_path
from kaa.wire.schema import RECORDS, Field, Fixed, Message, fields_of
from kaa.wire.schema import Struct as WireStruct


@cache
def all_messages() -> tuple[type[Message], ...]:
    """Every message class of `kaa.wire.messages`, in the order of the modules and of the text."""
    found: dict[type[Message], None] = {}
    for info in iter_modules(messages_path):
        module = import_module(f"kaa.wire.messages.{info.name}")
        for value in vars(module).values():
            is_own = isinstance(value, type) and value.__module__ == module.__name__
            if is_own and issubclass(value, Message):
                found[value] = None
    return tuple(found)


def versions_of(message: type[Message]) -> range:
    return range(message.valid_versions.low, message.valid_versions.high + 1)


def message_versions() -> Iterator[tuple[type[Message], int]]:
    for message in all_messages():
        for version in versions_of(message):
            yield message, version


class Shape(Enum):
    DEFAULT = "every field at its default"
    EMPTY = "every field zero, empty or null"
    FULL = "every field set, arrays with elements"
    DRAWN = "each field drawn for itself"


SHAPES = (Shape.DEFAULT, Shape.EMPTY, Shape.FULL, Shape.DRAWN, Shape.DRAWN, Shape.DRAWN)

TEXTS = ("a", "topic-1", "žluťoučký kůň", "蛇 🐍", "\0", "x" * 126, "y" * 127, "é" * 64, "z" * 300)
LONG_TEXTS = ("L" * 16_383, "☃" * 10_922)
SIZES = (1, 2, 16, 126, 127, 128, 300)
LONG_SIZES = (16_382, 16_384, 70_000)
DOUBLES = (1.0, -1.5, 1e308, 5e-324, float("inf"), float("-inf"))


class InstanceMaker:
    """Draws instances of one version of one message."""

    def __init__(self, random: Random, message: type[Message], version: int) -> None:
        self.random = random
        self.message = message
        self.version = version
        self.is_flexible = version in message.flexible_versions

    def make(self, shape: Shape, *, unknown_tags: bool = False) -> Any:
        """One instance; with `unknown_tags` its structs carry tagged fields that nobody knows."""
        return self._struct(self.message, shape, unknown_tags, depth=0)

    def _struct(
        self, struct_class: type[WireStruct], shape: Shape, unknown_tags: bool, depth: int
    ) -> Any:
        values = {
            field.name: self._field(field, shape, unknown_tags, depth)
            for field in fields_of(struct_class)
            if self.version in field.versions
        }
        instance = struct_class(**values)
        if unknown_tags and self.is_flexible:
            instance.unknown_tags = self._unknown_tags(struct_class)
        return instance

    def _unknown_tags(self, struct_class: type[WireStruct]) -> dict[int, bytes] | None:
        known = {field.tag for field in fields_of(struct_class)}
        tags = self.random.sample(
            (0, 1, 5, 127, 128, 20_000, 0x7FFF_FFFE), self.random.randrange(4)
        )
        return {tag: self._bytes(long=False) for tag in sorted(tags) if tag not in known} or None

    def _field(self, field: Field, shape: Shape, unknown_tags: bool, depth: int) -> Any:
        is_nullable = self.version in field.nullable
        if shape is Shape.DRAWN:
            if is_nullable and self.random.random() < 0.25:
                return None
            if self.random.random() < 0.25:
                shape = self.random.choice((Shape.DEFAULT, Shape.EMPTY))
        # The default of a field may be null in versions that cannot say so, and a struct is made
        # field by field in every shape.
        is_struct = field.is_struct and not field.is_array
        if shape is Shape.DEFAULT and not is_struct and (field.default is not None or is_nullable):
            return [] if field.default == [] else field.default
        if shape is not Shape.FULL and shape is not Shape.DRAWN:
            if is_nullable:
                return None
            if is_struct and self.version in field.tagged:
                return None
        if field.is_array:
            count = self._count(field, shape, depth)
            return [self._value(field, shape, unknown_tags, depth + 1) for _ in range(count)]
        return self._value(field, shape, unknown_tags, depth)

    def _count(self, field: Field, shape: Shape, depth: int) -> int:
        if shape in (Shape.DEFAULT, Shape.EMPTY):
            return 0
        if shape is Shape.FULL:
            return 2
        if depth == 0 and isinstance(field.element, Fixed) and self.random.random() < 0.2:
            return self.random.choice((126, 127, 128, 300))
        return self.random.randrange(4 - min(depth, 2))

    def _value(self, field: Field, shape: Shape, unknown_tags: bool, depth: int) -> Any:
        element = field.element
        is_blank = shape in (Shape.DEFAULT, Shape.EMPTY)
        if isinstance(element, Fixed):
            return element.default if is_blank else self.fixed(field, element)
        if element is str:
            return "" if is_blank else self._text(long=depth == 0)
        if element is bytes or element is RECORDS:
            return b"" if is_blank else self._bytes(long=depth == 0)
        value = self._struct(element, shape, unknown_tags, depth)
        if self.version in field.tagged and not field.is_array and value == element():
            # A tagged struct that equals its default is left out, as Kafka leaves it out.
            return None
        return value

    def fixed(self, field: Field, element: Fixed) -> Any:
        """A value of fixed width; may be overridden for a reader that accepts fewer values."""
        random = self.random
        if element.name == "bool":
            return random.random() < 0.5
        if element.name == "float64":
            return random.choice(DOUBLES)
        if element.name == "uuid":
            return Uuid(random.randbytes(16))
        bits = 8 * element.size
        if element.name.startswith("uint"):
            low, high = 0, (1 << bits) - 1
        else:
            low, high = -1 << (bits - 1), (1 << (bits - 1)) - 1
        return random.choice((low, high, 0, 1, high // 3, random.randint(low, high)))

    def _text(self, *, long: bool) -> str:
        if long and self.random.random() < 0.02:
            return self.random.choice(LONG_TEXTS)
        return self.random.choice(TEXTS)

    def _bytes(self, *, long: bool) -> bytes:
        is_long = long and self.random.random() < 0.02
        return self.random.randbytes(self.random.choice(LONG_SIZES if is_long else SIZES))


def instances(
    message: type[Message],
    version: int,
    shapes: tuple[Shape, ...] = SHAPES,
    *,
    seed: int = 0,
    unknown_tags: bool = False,
) -> Iterator[Any]:
    """The same instances for the same arguments, one of each shape named."""
    random = Random(f"{message.__name__} {version} {seed}")
    maker = InstanceMaker(random, message, version)
    for shape in shapes:
        yield maker.make(shape, unknown_tags=unknown_tags)
