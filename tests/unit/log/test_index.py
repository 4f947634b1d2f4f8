"""Offset and time index: look-ups against a plain model, zero tails, damage, truncation."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.limits import INDEX_BLOCK_BYTES
from kaa.log.errors import CorruptFileError
from kaa.log.files import read_whole
from kaa.log.index import OffsetIndex, TimeIndex
from kaa.log.sim_files import SimFiles

BASE = 1000
BYTES_MAX = 10 * 1024 * 1024


def _files() -> SimFiles:
    files = SimFiles()
    files.make_directory("/d")
    return files


def _offset_index(files: SimFiles, entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex(files, "/d/i", BASE, BYTES_MAX)
    index.create()
    for offset, position in entries:
        index.append(offset, position)
    return index


def _loaded(files: SimFiles) -> OffsetIndex:
    index = OffsetIndex(files, "/d/i", BASE, BYTES_MAX)
    index.load()
    return index


def test_offset_index_bytes_are_kafkas() -> None:
    files = _files()
    _offset_index(files, [(1005, 100), (1009, 300)]).flush().sync()
    assert read_whole(files, "/d/i") == pack(">iiii", 5, 100, 9, 300)


def test_time_index_bytes_are_kafkas() -> None:
    files = _files()
    index = TimeIndex(files, "/d/t", BASE, BYTES_MAX)
    index.create()
    index.maybe_append(77, 1005)
    index.maybe_append(77, 1006)
    index.maybe_append(70, 1007)
    index.maybe_append(90, 1009)
    index.flush()
    assert read_whole(files, "/d/t") == pack(">qiqi", 77, 5, 90, 9)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5000)), max_size=40),
    st.integers(0, 3),
    st.booleans(),
)
def test_lookups_agree_with_a_list(steps: list[tuple[int, int]], repeat: int, reload: bool) -> None:
    entries = []
    offset, position = BASE, 0
    for offset_step, position_step in steps * (1 + 20 * repeat):
        offset += offset_step
        position += position_step
        entries.append((offset, position))
    files = _files()
    index = _offset_index(files, entries)
    if reload:
        index.flush()
        index = _loaded(files)
    assert index.entries == len(entries)
    assert index.last_offset == (entries[-1][0] if entries else BASE)
    start = (BASE, 0)
    for target in {BASE - 1, BASE, BASE + 1, offset // 2 + BASE // 2, offset - 1, offset + 1}:
        wanted = [entry for entry in entries if entry[0] <= target]
        assert index.lookup(target) == (wanted[-1] if wanted else start)
    for target in {0, position // 3, position - 1, position, position + 1}:
        below = [entry for entry in entries if entry[1] <= target]
        assert index.lookup_position(target) == (below[-1] if below else start)
        behind = [entry for entry in entries if entry[1] >= target]
        assert index.upper_bound_offset(target) == (behind[0][0] if behind else None)


def test_time_lookup() -> None:
    index = TimeIndex(_files(), "/d/t", BASE, BYTES_MAX)
    index.create()
    assert index.lookup(10) == (-1, BASE)
    index.maybe_append(10, 1003)
    index.maybe_append(20, 1008)
    assert [index.lookup(t) for t in (9, 10, 19, 20, 99)] == [
        (-1, BASE),
        (10, 1003),
        (10, 1003),
        (20, 1008),
        (20, 1008),
    ]
    index.truncate_to(1008)
    assert (index.entries, index.last_timestamp, index.last_offset) == (1, 10, 1003)


def test_little_stays_in_memory_and_all_is_written_by_flush() -> None:
    files = _files()
    entries = [(BASE + 1 + n, n * 10) for n in range(INDEX_BLOCK_BYTES)]
    index = _offset_index(files, entries)
    assert len(index._pending) <= INDEX_BLOCK_BYTES
    assert index.lookup(entries[3][0]) == entries[3]
    index.flush()
    assert files.size("/d/i") == len(entries) * 8
    index.append(BASE + 10**6, 10**6)
    index.flush()
    assert _loaded(files).lookup(2**62) == (BASE + 10**6, 10**6)


@pytest.mark.parametrize("valid", [0, 1, 2, 511, 512, 513, 1024])
def test_the_zero_tail_of_a_killed_kafka_is_not_read(valid: int) -> None:
    files = _files()
    entries = [(BASE + 5 + n, 100 + n) for n in range(valid)]
    file = _offset_index(files, entries).flush()
    file.truncate(BYTES_MAX)
    index = _loaded(files)
    assert index.entries == valid
    index.append(BASE + 10**6, 10**6)
    index.flush()
    assert files.size("/d/i") == (valid + 1) * 8
    assert _loaded(files).last_offset == BASE + 10**6


def test_half_an_entry_is_corrupt() -> None:
    files = _files()
    _offset_index(files, [(1005, 100)]).flush().truncate(7)
    with pytest.raises(CorruptFileError):
        _loaded(files)
    with pytest.raises(FileNotFoundError):
        TimeIndex(files, "/d/none", BASE, BYTES_MAX).load()


def test_truncation_removes_from_memory_and_disk() -> None:
    files = _files()
    entries = [(BASE + 2 * n, n * 100) for n in range(1, 2000)]
    index = _offset_index(files, entries)
    index.truncate_to(BASE + 1001)
    assert index.entries == 500
    assert index.last_offset == BASE + 1000
    assert files.size("/d/i") == 500 * 8
    index.truncate_to(BASE + 1000)
    assert index.last_offset == BASE + 998
    index.truncate_to(0)
    assert (index.entries, index.last_offset) == (0, BASE)


def test_fullness() -> None:
    files = _files()
    offsets = OffsetIndex(files, "/d/i", BASE, 17)
    offsets.create()
    full = []
    for n in range(3):
        full.append(offsets.is_full)
        offsets.append(BASE + 1 + n, n)
    assert full == [False, False, True]
    times = TimeIndex(files, "/d/t", BASE, 24)
    times.create()
    full = [times.is_full]
    times.maybe_append(1, BASE)
    assert [*full, times.is_full] == [False, True]


def test_a_closed_index_opens_again_where_it_is_now() -> None:
    files = _files()
    index = _offset_index(files, [(1001, 1)])
    index.flush()
    index.append(1002, 2)
    index.close()
    files.rename("/d/i", "/d/j")
    index.path = "/d/j"
    assert index.lookup(1001) == (1001, 1)
    index.flush()
    assert files.size("/d/j") == 16
    index.close()
    assert files.open_handles == 0
