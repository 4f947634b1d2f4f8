"""The bytes of coordinator records.

| bytes | type | field of the key |
|---|---|---|
| 2 | int16 | what the record is about (`record_type` of the message class) |
| ... | ... | the key message in version 0 |

| bytes | type | field of the value; no value at all is a tombstone |
|---|---|---|
| 2 | int16 | version of the value message |
| ... | ... | the value message in that version |

A record type that this version does not know was written by a newer one, before a downgrade: it is
passed over. A value of an unknown version cannot be passed over, since the state would be wrong
without it: the partition does not load.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import (
    COORDINATOR_RECORD_OVERHEAD_BYTES_MAX,
    RECORDS_PER_PIECE,
    SMALL_RECORD_BYTES,
)
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.coordinators.machine import WritableRecord
    from kaa.model.pieces import Pieces
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue

# Comes first in keys and values.
VERSION = Struct(">h")


class RecordType(NamedTuple):
    """A kind of record by its two message classes."""

    key: type[CoordinatorKey]
    value: type[CoordinatorValue]


class RecordTypes:
    """The kinds of records of one internal topic."""

    def __init__(self, types: Iterable[RecordType]) -> None:
        self._types = {kind.key.record_type: kind for kind in types}

    def decode(
        self, key: bytes | None, value: bytes | None
    ) -> tuple[CoordinatorKey, CoordinatorValue | None] | None:
        """Key and value; None for a type of a newer version. WireError if it makes no sense."""
        if key is None or len(key) < VERSION.size:
            raise WireError("a coordinator record without a key")
        kind = self._types.get(VERSION.unpack_from(key)[0])
        if kind is None:
            return None
        read_key = kind.key.decode(key[VERSION.size :], 0)
        if value is None:
            return read_key, None
        if len(value) < VERSION.size:
            raise WireError("the value of a coordinator record has no version")
        version = VERSION.unpack_from(value)[0]
        if version not in kind.value.valid_versions:
            raise WireError(f"version {version} of {kind.value.__name__} is not known")
        return read_key, kind.value.decode(value[VERSION.size :], version)


def encode_key(key: CoordinatorKey) -> bytes:
    return VERSION.pack(key.record_type) + key.encode(0)


def encode_all(
    records: Sequence[WritableRecord],
) -> Pieces[tuple[list[tuple[bytes, bytes | None]], list[int]]]:
    """Keys and values, and what each takes in a batch. A large record counts as several."""
    encoded, sizes = [], []
    spent = 0
    for record in records:
        key, value = record.encode()
        size = len(key) + len(value or b"") + COORDINATOR_RECORD_OVERHEAD_BYTES_MAX
        encoded.append((key, value))
        sizes.append(size)
        spent += 1 + size // SMALL_RECORD_BYTES
        if spent >= RECORDS_PER_PIECE:
            spent = 0
            yield
    return encoded, sizes
