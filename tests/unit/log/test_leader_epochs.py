"""Leader epochs: assignment, look-ups and truncation."""

from __future__ import annotations

import pytest

from kaa.log.errors import CorruptFileError
from kaa.log.leader_epochs import EpochEntry, LeaderEpochCache


def _cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)


def _is_dirty(cache: LeaderEpochCache) -> bool:
    return cache.version > 0


def test_file_bytes_are_kafkas() -> None:
    assert _cache((0, 0)).encode() == b"0\n1\n0 0\n"
    cache = LeaderEpochCache.decode("f", b"0\n2\n0 0\n3 17\n")
    assert cache.entries == [EpochEntry(0, 0), EpochEntry(3, 17)]
    assert not _is_dirty(cache)
    with pytest.raises(CorruptFileError):
        LeaderEpochCache.decode("f", b"0\n1\n0 x\n")


@pytest.mark.parametrize("entry", [b"-1 0", b"0 -5"])
def test_a_file_with_a_negative_number_is_damaged(entry: bytes) -> None:
    with pytest.raises(CorruptFileError, match="below zero"):
        LeaderEpochCache.decode("f", b"0\n1\n%b\n" % entry)


def test_a_known_epoch_is_not_assigned_again() -> None:
    cache = _cache((0, 0), (2, 10))
    cache.assign(2, 50)
    assert not _is_dirty(cache)
    cache.assign(3, 60)
    assert _is_dirty(cache)
    assert cache.entries == [EpochEntry(0, 0), EpochEntry(2, 10), EpochEntry(3, 60)]


def test_contradictions_are_settled_for_the_newest() -> None:
    cache = _cache((0, 0), (2, 10), (4, 20))
    cache.assign(5, 10)
    assert cache.entries == [EpochEntry(0, 0), EpochEntry(5, 10)]
    cache.assign(3, 40)
    assert cache.entries == [EpochEntry(0, 0), EpochEntry(3, 40)]
    cache.assign(3, 30)
    assert cache.entries == [EpochEntry(0, 0), EpochEntry(3, 30)]


def test_end_offsets() -> None:
    cache = _cache((2, 5), (4, 20))
    assert cache.end_offset_for(-1, 30) == (-1, -1)
    assert cache.end_offset_for(1, 30) == (1, 5)
    assert cache.end_offset_for(2, 30) == (2, 20)
    assert cache.end_offset_for(3, 30) == (2, 20)
    assert cache.end_offset_for(4, 30) == (4, 30)
    assert cache.end_offset_for(5, 30) == (-1, -1)
    assert _cache().end_offset_for(0, 0) == (-1, -1)


def test_epochs_of_offsets() -> None:
    cache = _cache((2, 5), (4, 20))
    assert [cache.epoch_for_offset(offset) for offset in (4, 5, 19, 20, 99)] == [None, 2, 2, 4, 4]
    assert cache.previous_epoch(2) is None
    assert cache.previous_epoch(4) == 2
    assert cache.previous_epoch(9) == 4
    assert cache.latest_epoch == 4


def test_truncation_from_the_end() -> None:
    cache = _cache((0, 0), (2, 10), (4, 20))
    cache.truncate_from_end(21)
    assert not _is_dirty(cache)
    cache.truncate_from_end(10)
    assert cache.entries == [EpochEntry(0, 0)]
    assert _is_dirty(cache)


def test_truncation_from_the_start_moves_the_first_entry() -> None:
    cache = _cache((0, 0), (2, 10), (4, 20))
    cache.truncate_from_start(0)
    assert not _is_dirty(cache)
    cache.truncate_from_start(15)
    assert cache.entries == [EpochEntry(2, 15), EpochEntry(4, 20)]
    assert _is_dirty(cache)
    cache.clear()
    assert cache.entries == []
    assert cache.latest_epoch is None
