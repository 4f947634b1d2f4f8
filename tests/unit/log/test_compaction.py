"""Compaction of one log: what stays, what goes, when, and what a crash leaves."""

from __future__ import annotations

import errno
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kaa.log.append import BY_COORDINATOR, append_as_leader
from kaa.log.compaction import (
    Compaction,
    CompactionAbortedError,
    CompactionRange,
    group_segments,
)
from kaa.log.errors import StorageError
from kaa.log.jobs import SyncJob
from kaa.log.log import FetchIsolation
from kaa.log.sim_files import CrashError, Fault, SimFiles
from kaa.log.truncation import truncate_to
from kaa.records.batch import RecordBatch
from kaa.records.compaction import OffsetMap
from kaa.records.errors import CorruptRecordsError
from kaa.records.record import iter_records
from tests.unit.log.batches import ABORT, COMMIT, batch, marker
from tests.unit.log.logs import SMALL, new_disk, new_log, purge, reload, run_jobs, stored_batches

if TYPE_CHECKING:
    from kaa.log.log import UnifiedLog

COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}), delete_retention_ms=100)
FOLDER = "/data/topic-0"
Pair = tuple[str, str | None]


def _log(files: SimFiles | None = None) -> UnifiedLog:
    return new_log(files or new_disk(), COMPACTED)


def _write(
    log: UnifiedLog,
    *pairs: Pair,
    producer_id: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> None:
    content = batch(
        [(k.encode(), None if v is None else v.encode()) for k, v in pairs],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        sequence=sequence,
        transactional=transactional,
    )
    append_as_leader(log, content, leader_epoch=0, now_ms=0)
    log.update_high_watermark(log.log_end_offset)


def _end(log: UnifiedLog, kind: int, producer_id: int) -> None:
    content = marker(kind, producer_id, 0)
    append_as_leader(log, content, leader_epoch=0, now_ms=0, source=BY_COORDINATOR)
    log.update_high_watermark(log.log_end_offset)


def _clean(log: UnifiedLog, start: int = 0, *, now_ms: int = 0, map_bytes: int = 10_000) -> int:
    """One round up to the active segment; returns where the next one starts."""
    end = log.segments.active.base_offset
    offset_map = OffsetMap(map_bytes, bytes(16))
    compaction = Compaction(log, CompactionRange(start, end), offset_map, now_ms)
    with closing(compaction.run()) as steps:
        for job in steps:
            run_jobs([job], now_ms)
    return compaction.end_offset


def _records(log: UnifiedLog) -> list[tuple[int, str, str | None]]:
    """Offset, key and value of every record that is not a marker."""
    return [
        (r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode())
        for stored in stored_batches(log)
        if not stored.is_control
        for r in iter_records(stored)
    ]


def _latest(log: UnifiedLog) -> dict[str, str | None]:
    return {key: value for _, key, value in _records(log)}


def _markers(log: UnifiedLog) -> list[RecordBatch]:
    return [b for b in stored_batches(log) if b.is_control]


# --- keys


def test_the_latest_record_of_each_key_stays_where_it_was() -> None:
    log = _log()
    for n in range(30):
        _write(log, (f"k{n % 4}", f"v{n}"), (f"x{n}", "only"))
    wanted = _latest(log)
    log.roll(0)
    assert _clean(log) == 60
    found = _records(log)
    assert {key: value for _, key, value in found} == wanted
    assert [offset for offset, key, _ in found if key[0] == "k"] == [52, 54, 56, 58]
    assert [offset for offset, key, _ in found if key[0] == "x"] == list(range(1, 60, 2))
    assert len(log.segments) < 10
    assert log.log_end_offset == 60


def test_the_active_segment_is_left_alone() -> None:
    log = _log()
    for n in range(20):
        _write(log, ("k", str(n)))
    active = log.segments.active.base_offset
    _clean(log)
    assert [offset for offset, _, _ in _records(log)] == [active - 1, *range(active, 20)]


def test_every_offset_can_still_be_read() -> None:
    log = _log()
    for n in range(40):
        _write(log, (f"k{n % 7}", str(n)))
    log.roll(0)
    _clean(log)
    for offset in range(40):
        result = log.read(offset, bytes_max=1, isolation=FetchIsolation.LOG_END)
        assert result.region is not None
        assert RecordBatch(result.region.read()).last_offset >= offset


def test_records_without_a_key_go() -> None:
    log = _log()
    append_as_leader(log, batch([(None, b"v"), (b"k", b"v")]), leader_epoch=0, now_ms=0)
    _write(log, ("z", "end"))
    log.roll(0)
    _clean(log)
    assert [key for _, key, _ in _records(log)] == ["k", "z"]


def test_rounds_within_a_small_map() -> None:
    log = _log()
    for n in range(60):
        _write(log, (f"k{n % 30}", str(n)))
    wanted = _latest(log)
    log.roll(0)
    start, rounds = 0, 0
    while start < 60:
        end = _clean(log, start, map_bytes=24 * 10)
        assert end > start
        assert _latest(log) == wanted
        start, rounds = end, rounds + 1
    assert rounds > 3
    assert len(_records(log)) == 30


def test_a_round_over_clean_records_changes_nothing() -> None:
    log = _log()
    for n in range(30):
        _write(log, (f"k{n % 4}", str(n)))
    log.roll(0)
    _clean(log)
    before = _records(log)
    _clean(log)
    assert _records(log) == before


# --- tombstones


def test_a_tombstone_stays_until_its_horizon() -> None:
    log = _log()
    _write(log, ("gone", "1"), ("kept", "1"))
    _write(log, ("gone", None))
    _write(log, ("z", "end"))
    log.roll(0)
    _clean(log, now_ms=1000)
    assert _records(log) == [(1, "kept", "1"), (2, "gone", None), (3, "z", "end")]
    horizons = [b.delete_horizon_ms for b in stored_batches(log)]
    assert horizons == [None, 1100, None]
    _clean(log, now_ms=1099)
    assert (2, "gone", None) in _records(log)
    _clean(log, now_ms=1100)
    assert _records(log) == [(1, "kept", "1"), (3, "z", "end")]


def test_a_horizon_does_not_move() -> None:
    log = _log()
    _write(log, ("gone", None), ("kept", "1"))
    _write(log, ("z", "end"))
    log.roll(0)
    _clean(log, now_ms=1000)
    _clean(log, now_ms=1050)
    assert stored_batches(log)[0].delete_horizon_ms == 1100
    timestamps = [r.timestamp for r in iter_records(stored_batches(log)[0])]
    assert timestamps == [1000, 1001], "the horizon takes the place of the base timestamp"


# --- transactions


def test_aborted_records_go_at_once_and_do_not_count() -> None:
    log = _log()
    _write(log, ("k", "good"))
    _write(log, ("k", "bad"), producer_id=7, sequence=0, transactional=True)
    _write(log, ("other", "bad"), producer_id=7, sequence=1, transactional=True)
    _end(log, ABORT, 7)
    _write(log, ("z", "end"))
    log.roll(0)
    _clean(log)
    assert _records(log) == [(0, "k", "good"), (4, "z", "end")]
    assert len(_markers(log)) == 1, "its transaction had records in this round"


def test_a_marker_goes_after_its_records_and_its_horizon() -> None:
    log = _log()
    _write(log, ("k", "1"), producer_id=7, sequence=0, transactional=True)
    _end(log, COMMIT, 7)
    _write(log, ("k", "2"), producer_id=8, sequence=0)
    _write(log, ("z", "end"))
    log.roll(0)
    _clean(log, now_ms=1000)
    assert [m.delete_horizon_ms for m in _markers(log)] == [None], "records of it were met"
    log.producer_state.producers.clear()
    _clean(log, now_ms=1500)
    assert [m.delete_horizon_ms for m in _markers(log)] == [None], "its last, empty batch was met"
    _clean(log, now_ms=2000)
    assert [m.delete_horizon_ms for m in _markers(log)] == [2100]
    _clean(log, now_ms=2099)
    assert len(_markers(log)) == 1
    _clean(log, now_ms=2100)
    assert _markers(log) == []
    assert _records(log) == [(2, "k", "2"), (3, "z", "end")]


def test_the_index_of_aborts_is_kept_while_a_batch_of_it_is() -> None:
    log = _log()
    for n in range(8):
        _write(log, (f"a{n}", "bad"), producer_id=7, sequence=n, transactional=True)
    _end(log, ABORT, 7)
    _write(log, ("z", "end"))
    log.roll(0)
    _clean(log)
    kept = [b for b in stored_batches(log) if b.producer_id == 7 and not b.is_control]
    assert [(b.base_offset, b.record_count) for b in kept] == [(7, 0)]
    log.producer_state.producers.clear()
    _clean(log)
    assert len(log.collect_aborted(0, 10)) == 1
    _clean(log)
    assert log.collect_aborted(0, 10) == []


# --- producers


def test_the_last_batch_of_each_producer_stays_empty() -> None:
    log = _log()
    for n in range(10):
        _write(log, ("k", str(n)), producer_id=7, sequence=n)
    _write(log, ("k", "last"), producer_id=8, sequence=0)
    log.roll(0)
    _clean(log)
    batches = stored_batches(log)
    assert [(b.base_offset, b.record_count) for b in batches] == [(9, 0), (10, 1)]
    assert (batches[0].producer_id, batches[0].base_sequence) == (7, 9)
    assert batches[0].is_valid_crc()


def test_many_producers_are_looked_at_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.log.compaction.PRODUCERS_PER_SLICE_MAX", 1)
    test_the_last_batch_of_each_producer_stays_empty()


def test_sequences_go_on_after_compaction_and_recovery() -> None:
    files = new_disk()
    log = _log(files)
    for n in range(30):
        _write(log, (f"k{n % 2}", str(n)), producer_id=7, sequence=n)
    log.roll(0)
    _clean(log)
    found = reload(files.restart("kill"), COMPACTED)
    assert found.producer_state.producers[7].last_sequence == 29
    again = batch([(b"k1", b"29")], producer_id=7, producer_epoch=0, sequence=29)
    assert append_as_leader(found, again, leader_epoch=0, now_ms=0).is_duplicate


def test_the_end_of_the_range_is_not_forgotten() -> None:
    log = _log()
    for n in range(20):
        _write(log, ("k", str(n)))
    append_as_leader(log, batch([(None, b"goes")]), leader_epoch=0, now_ms=0)
    log.update_high_watermark(21)
    log.roll(0)
    _clean(log)
    assert [(b.base_offset, b.record_count) for b in stored_batches(log)] == [(19, 1), (20, 0)]


# --- files


def test_small_segments_are_joined() -> None:
    log = _log()
    for n in range(60):
        _write(log, (f"k{n % 3}", str(n)))
    log.roll(0)
    sizes = len(log.segments)
    _clean(log)
    _clean(log)
    assert len(log.segments) < sizes / 2
    assert all(segment.size <= 600 for segment in log.segments)


def test_groups_respect_every_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.log.compaction.SEGMENTS_REMOVED_PER_TURN_MAX", 4)
    log = _log()
    for n in range(60):
        _write(log, (f"k{n}", str(n)))
    segments = list(log.segments)[:-1]
    entries = max(segment.offset_index.size_in_bytes for segment in segments)
    for config, size in (
        (replace(COMPACTED, segment_bytes=1800), 3),
        (replace(COMPACTED, segment_bytes=1800, segment_index_bytes=2 * entries), 2),
        (replace(COMPACTED, segment_bytes=1), 1),
        (replace(COMPACTED, segment_bytes=10**6), 4),
    ):
        log.config = config
        groups = group_segments(segments, log, log.segments.active.base_offset)
        assert [s for group in groups for s in group] == segments
        assert max(map(len, groups)) == size


def test_old_files_go_after_their_delay() -> None:
    files = new_disk()
    log = _log(files)
    for n in range(30):
        _write(log, (f"k{n % 3}", str(n)))
    log.roll(0)
    _clean(log, now_ms=0)
    assert any(name.endswith(".deleted") for name in files.list_directory(FOLDER))
    purge(log, 60_000)
    names = files.list_directory(FOLDER)
    assert not [n for n in names if n.endswith((".deleted", ".cleaned", ".swap"))]
    bases = {int(name[:20]) for name in names if name.endswith(".log")}
    assert bases == set(log.segments.base_offsets)
    log.close()
    assert files.open_handles == 0


def test_readers_go_on_with_what_they_have() -> None:
    log = _log()
    for n in range(30):
        _write(log, (f"k{n % 3}", str(n)))
    log.roll(0)
    result = log.read(0, bytes_max=10**6)
    assert result.region is not None
    before = result.region.read()
    _clean(log)
    purge(log, 10**9)
    assert result.region.read() == before
    result.region.release()


# --- trouble


@pytest.mark.parametrize("change", ["truncate", "delete", "close", "move"])
def test_a_log_that_changes_under_a_round_ends_it(change: str) -> None:
    files = new_disk()
    log = _log(files)
    for n in range(30):
        _write(log, (f"k{n % 3}", str(n)))
    log.roll(0)
    log.update_high_watermark(20)
    compaction = Compaction(log, CompactionRange(0, 30), OffsetMap(10_000, bytes(16)), 0)
    steps = compaction.run()
    while not isinstance(job := next(steps), SyncJob):
        run_jobs([job], 0)
    if change == "truncate":
        truncate_to(log, 25, now_ms=0)
    elif change == "delete":
        log.remove_segments([log.segments.first], now_ms=0)
    elif change == "move":
        log.is_moving = True
    else:
        log.close()
    with pytest.raises(CompactionAbortedError):
        next(steps)
    assert not [n for n in files.list_directory(FOLDER) if n.endswith(".cleaned")]


def test_damaged_records_are_not_given_a_new_checksum() -> None:
    files = new_disk()
    log = _log(files)
    for n in range(30):
        _write(log, (f"k{n % 3}", str(n)))
    log.roll(0)
    before = files.list_directory(FOLDER)
    files.flip_bits(f"{FOLDER}/{0:020d}.log", 90)
    with pytest.raises(CorruptRecordsError):
        _clean(log)
    assert files.list_directory(FOLDER) == before


@pytest.mark.parametrize(
    "fault",
    [
        Fault("create", ".index.cleaned"),
        Fault("write", ".log.cleaned"),
        Fault("sync", ".log.cleaned"),
        Fault("rename", ".swap"),
    ],
)
def test_a_disk_error_takes_the_directory_offline(fault: Fault) -> None:
    files = new_disk()
    log = _log(files)
    for n in range(30):
        _write(log, (f"k{n % 3}", str(n)))
    log.roll(0)
    files.faults.append(replace(fault, errno=errno.EIO))
    with pytest.raises((StorageError, CompactionAbortedError)):
        _clean(log)
    assert not log.directory.is_online
    found = reload(files.restart("kill"), COMPACTED)
    assert _latest(found) == {"k0": "27", "k1": "28", "k2": "29"}


def _story(files: SimFiles) -> tuple[UnifiedLog, dict[str, str | None]]:
    """A durable log with keys, tombstones, an abort and a commit, ready to be cleaned."""
    log = _log(files)
    for n in range(16):
        _write(log, (f"k{n % 5}", str(n)), producer_id=7, sequence=n)
    _write(log, ("k1", "bad"), producer_id=8, sequence=0, transactional=True)
    _end(log, ABORT, 8)
    _write(log, ("t", "good"), producer_id=9, sequence=0, transactional=True)
    _end(log, COMMIT, 9)
    _write(log, ("k2", None))
    for n in range(6):
        _write(log, (f"k{n % 2 + 3}", f"again {n}"))
    log.roll(0)
    log.flush(now_ms=0)
    log.directory.checkpoint_recovery_points()
    return log, _committed(log)


def _committed(log: UnifiedLog) -> dict[str, str | None]:
    """The latest committed value of each key."""
    aborted = {a.producer_id for a in log.collect_aborted(0, log.log_end_offset)}
    return {
        (r.key or b"").decode(): None if r.value is None else r.value.decode()
        for stored in stored_batches(log)
        if not stored.is_control and not (stored.is_transactional and stored.producer_id in aborted)
        for r in iter_records(stored)
    }


def test_a_crash_at_every_step_leaves_the_old_or_the_new_segments() -> None:
    for crash_at in range(300):
        files = new_disk()
        log, wanted = _story(files)
        end = log.log_end_offset
        sequences = {p: e.last_sequence for p, e in log.producer_state.producers.items()}
        files.crash_at = len(files.history) + crash_at
        try:
            _clean(log)
            purge(log, 10**6)
            finished = True
        except CrashError:
            finished = False
        for mode, seed in (("kill", 0), ("lost", 0), ("torn", crash_at), ("torn", crash_at + 1)):
            after = files.restart(mode, seed=seed)  # type: ignore[arg-type]
            found = reload(after, COMPACTED)
            assert found.log_end_offset == end
            assert _committed(found) == wanted
            offsets = [b.base_offset for b in stored_batches(found)]
            assert offsets == sorted(set(offsets))
            for producer_id, sequence in sequences.items():
                entry = found.producer_state.producers[producer_id]
                assert entry.last_sequence == sequence
            names = after.list_directory(FOLDER)
            assert not [n for n in names if n.endswith((".deleted", ".cleaned", ".swap"))]
            _clean(found)
            assert _committed(found) == wanted
        if finished:
            return
    pytest.fail("the round never finished")
