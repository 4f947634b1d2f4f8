"""What every format offers: a schema as columns, and values decoded to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaa.spark.formats.untyped import pa

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaa.spark.formats.untyped import Array, StructArray, StructType


class SchemaError(ValueError):
    """A schema that cannot be read, or that has no columns."""


class Decoded(NamedTuple):
    """A struct per value, null where there is none, and why some could not be decoded."""

    rows: StructArray
    errors: list[tuple[int, str]]


class SchemaCodec(Protocol):
    """One schema of one format."""

    @property
    def type(self) -> StructType:
        """The columns; all nullable, with types that Spark has."""

    @property
    def defaults(self) -> Mapping[tuple[str, ...], object]:
        """The values of fields, by path, for records of writers that do not know them."""

    def decode(self, values: Array) -> Decoded:
        """Decodes a binary column. A null value is a null row, and no error."""


def isolate(values: Array, convert: Callable[[Array], StructArray], kind: StructType) -> Decoded:
    """Decodes by a converter that fails as a whole, so that only bad values are lost.

    A part that fails is halved until single values remain: a good batch costs one call, each bad
    value a few more per power of two.
    """
    parts: list[Array] = []
    errors: list[tuple[int, str]] = []
    waiting = [(0, len(values))]
    while waiting:
        start, end = waiting.pop()
        try:
            parts.append(convert(values.slice(start, end - start)))
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            if end - start == 1:
                errors.append((start, " ".join(str(error).split())))
                parts.append(pa.nulls(1, kind))
                continue
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    if not parts:
        return Decoded(pa.array([], kind), errors)
    rows = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    assert isinstance(rows, pa.StructArray)
    return Decoded(rows, errors)
