"""Wire primitives: ranges of versions, Kafka's uuid, variable-length integers, tagged fields.

An unsigned varint holds seven bits a byte, lowest first, with the high bit set on every byte but
the last; Kafka allows five bytes. Compact strings, bytes and arrays (KIP-482) write their length
plus one so, and 0 for null.

A tagged-field section stands at the end of every struct of a flexible version:

| field | type | meaning |
|---|---|---|
| count | uvarint | of fields; then for each |
| tag | uvarint | ascending |
| size | uvarint | |
| payload | `size` bytes | |

A reader keeps what it does not know, so that a message passed on loses nothing.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable


class WireError(ValueError):
    """Bytes that are not the message they are said to be, or a message that its version cannot
    carry.
    """


class Versions(NamedTuple):
    """An inclusive range of versions; empty if `low` is above `high`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Reads Kafka's notation: `3`, `0-4`, `2+` or `none`."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def within(self, other: Versions) -> Versions:
        """The versions in both ranges."""
        both = Versions(max(self.low, other.low), min(self.high, other.high))
        return both if both.low <= both.high else NO_VERSIONS

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == VERSION_MAX:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


VERSION_MAX: Final = 32_767
NO_VERSIONS: Final = Versions(0, -1)

_UUID_TEXT: Final = re.compile("[A-Za-z0-9_-]{22}(==)?")


class Uuid(bytes):
    """Sixteen bytes that print as Kafka prints a uuid: URL-safe base64 without padding."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads the 22 characters that `str` gives, with or without padding; raises ValueError on
        anything else.
        """
        if _UUID_TEXT.fullmatch(text) is None:
            raise ValueError(f"{text[:40]!r} is not a Kafka uuid (22 base64 characters)")
        return cls(urlsafe_b64decode(text[:22] + "=="))

    def __str__(self) -> str:
        return urlsafe_b64encode(self).decode()[:22]

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"


UUID_ZERO: Final = Uuid(16)


class PartitionId(NamedTuple):
    """A partition of a topic that may be gone, or be another of the same name."""

    topic_id: Uuid
    number: int


def random_uuid(randbytes: Callable[[int], bytes]) -> Uuid:
    """A random id as Kafka makes them: version 4, and no leading dash, for a command line."""
    while True:
        data = bytearray(randbytes(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        found = Uuid(bytes(data))
        if not str(found).startswith("-"):
            return found


_UVARINT_BYTES_MAX: Final = 5


def read_uvarint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """The value at `position` and the position after it; raises WireError or IndexError."""
    value = 0
    for shift in range(0, 7 * _UVARINT_BYTES_MAX, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                raise WireError("a varint is larger than 32 bits")
            return value, position
    raise WireError("a varint is longer than 5 bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    """Appends `value`, which is at least 0 and below 2**32."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_tags(
    out: bytearray, known: list[tuple[int, bytearray]], unknown: dict[int, bytes] | None
) -> None:
    """Appends a tagged-field section of the set known fields and the kept unknown ones, by tag."""
    if len(known) == 1 and not unknown:
        # By far the most; a record may have thousands of them.
        tag, payload = known[0]
        if tag < 0x80 and len(payload) < 0x80:
            out += bytes((1, tag, len(payload)))
            out += payload
            return
    fields: list[tuple[int, bytearray | bytes]] = [*known]
    if unknown:
        taken = {tag for tag, _ in known}
        fields += [(tag, payload) for tag, payload in unknown.items() if tag not in taken]
    fields.sort(key=lambda item: item[0])
    write_uvarint(out, len(fields))
    for tag, content in fields:
        write_uvarint(out, tag)
        write_uvarint(out, len(content))
        out += content
