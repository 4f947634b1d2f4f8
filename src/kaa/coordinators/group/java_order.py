"""The order in which Java's hash tables give their keys.

Kafka's assignors walk through hash maps and hash sets, and who comes first gets what is left over.
To give the same assignment for the same group, members, topics and partitions are walked through in
the order that Java would: by bucket, which is the hash with its upper half folded into the lower,
cut to the size of the table; within a bucket in the order of insertion. The number of buckets is a
power of two, at least 16, and the table is at most three quarters full.
"""

from __future__ import annotations

from functools import lru_cache
from heapq import merge
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar

from kaa.coordinators.java_hash import java_hash
from kaa.limits import GROUP_MEMBER_HASHES_MAX, NAMES_ANSWERED_PER_SLICE_MAX, RECORDS_PER_PIECE
from kaa.model.pieces import mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid

Key = TypeVar("Key")

_BUCKETS_MIN: Final = 16
# Of a name that is hashed as quickly as most are.
_CHARACTERS_HASHED: Final = 64
_HALVES: Final = Struct(">2q")
_INTS: Final = Struct(">4I")


def java_string_order(text: str) -> bytes:
    """A key to sort strings by as Java does: by their UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def uuid_halves(value: Uuid) -> tuple[int, int]:
    """The two signed halves, by which Java compares uuids."""
    most, least = _HALVES.unpack(value)
    return most, least


def uuid_hash(value: Uuid) -> int:
    one, two, three, four = _INTS.unpack(value)
    folded: int = one ^ two ^ three ^ four
    return folded


def integer_hash(value: int) -> int:
    return value


string_hash = lru_cache(GROUP_MEMBER_HASHES_MAX)(java_hash)


def map_order(keys: Iterable[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Keys that were put into an empty map one after the other."""
    listed = list(keys)
    buckets = _BUCKETS_MIN
    while 4 * len(listed) > 3 * buckets:
        buckets *= 2
    return _ordered(listed, hash_of, buckets)


def sized_map_order(keys: Iterable[Key], hash_of: Callable[[Key], int], capacity: int) -> list[Key]:
    """Keys that were put into a map that was made for a number of entries."""
    listed = list(keys)
    buckets = 1 << max(capacity - 1, 0).bit_length()
    while 4 * len(listed) > 3 * buckets:
        buckets *= 2
    return _ordered(listed, hash_of, buckets)


def computed_map_order(
    keys: Iterable[Key], hash_of: Callable[[Key], int], capacity: int
) -> Pieces[list[Key]]:
    """The same of a map that was filled by `computeIfAbsent`: a new key comes first in its bucket,
    and the table grows one key later. In pieces, since such maps hold all partitions of a group.
    """
    listed = list(keys)
    listed.reverse()
    buckets = 1 << max(capacity - 1, 0).bit_length()
    while 4 * (len(listed) - 1) > 3 * buckets:
        buckets *= 2
    mask = buckets - 1
    places = yield from mapped(lambda key: _bucket(hash_of(key), mask), listed)
    return [listed[number] for number in sorted(range(len(listed)), key=places.__getitem__)]


def set_order(keys: Iterable[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Keys of a set that was made as the copy of a collection."""
    listed = list(keys)
    return _ordered(listed, hash_of, _set_buckets(len(listed)))


def name_set_order(names: Collection[str]) -> Pieces[list[str]]:
    """The same for names in their order, in pieces: a member may have thousands of topics."""
    mask = _set_buckets(len(names)) - 1
    hashes = yield from name_hashes(names)
    placed = ((_bucket(hashed, mask), name) for hashed, name in zip(hashes, names, strict=True))
    runs: list[list[tuple[int, str]]] = []
    while part := list(islice(placed, NAMES_ANSWERED_PER_SLICE_MAX)):
        runs.append(sorted(part))
        if len(part) == NAMES_ANSWERED_PER_SLICE_MAX:
            yield
    ordered = merge(*runs)
    return (yield from mapped(lambda one: one[1], ordered, NAMES_ANSWERED_PER_SLICE_MAX))


def name_hashes(names: Iterable[str]) -> Pieces[list[int]]:
    """Their hashes, which are kept for a while: what is ordered by them next takes less long."""
    hashes: list[int] = []
    left = RECORDS_PER_PIECE
    for name in names:
        hashes.append(string_hash(name))
        # Every character counts.
        left -= 1 + len(name) // _CHARACTERS_HASHED
        if left <= 0:
            left = RECORDS_PER_PIECE
            yield
    return hashes


def _set_buckets(count: int) -> int:
    wanted = max(count * 4 // 3 + 1, _BUCKETS_MIN)
    return 1 << (wanted - 1).bit_length()


def _ordered(keys: list[Key], hash_of: Callable[[Key], int], buckets: int) -> list[Key]:
    mask = buckets - 1
    return sorted(keys, key=lambda key: _bucket(hash_of(key), mask))


def _bucket(hashed: int, mask: int) -> int:
    value = hashed & 0xFFFFFFFF
    return (value ^ value >> 16) & mask
