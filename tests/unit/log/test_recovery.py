"""Loading after a crash: every step of a scripted life of a log is a place to die.

The script writes as two idempotent producers and one transactional one, rolls, flushes and
checkpoints. It is run once per changing operation with a crash there, once as a kill (what was
written stays) and several times as a power cut (what was not synced is lost or torn). The log that
is found afterwards must be a prefix of what was appended, at least as long as what was promised.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from struct import pack
from typing import TYPE_CHECKING

import pytest

from kaa.log.append import AppendSource, append_as_follower, append_as_leader
from kaa.log.leader_epochs import EpochEntry
from kaa.log.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from kaa.log.sim_files import CrashError, SimFiles
from kaa.model.kinds import AppendOrigin
from kaa.records.errors import CorruptRecordsError
from tests.unit.log.batches import ABORT, COMMIT, batch, marker
from tests.unit.log.logs import SMALL, new_disk, new_log, purge, reload, stored_batches

if TYPE_CHECKING:
    from kaa.log.config import LogConfig
    from kaa.log.log import UnifiedLog
    from kaa.log.sim_files import CrashMode

FOLDER = "/data/topic-0"
LEFT_OVERS = (".deleted", ".cleaned", ".swap", ".tmp")


@dataclass
class Story:
    """What was appended, and what has been promised about it."""

    # Every batch handed to the log, with its offsets, also if the append did not return.
    contents: list[bytes] = field(default_factory=list)
    acknowledged_offset: int = 0
    durable_offset: int = 0
    created: bool = False


def _live(files: SimFiles, story: Story, config: LogConfig) -> None:
    """The script: 24 appends over several segments, with flushes and checkpoints between."""
    log = new_log(files, config)
    story.created = True
    for n in range(24):
        origin = AppendOrigin.CLIENT
        if n % 8 == 5:
            kind = ABORT if n % 16 == 5 else COMMIT
            content, origin = marker(kind, 9, 0, timestamp=n), AppendOrigin.COORDINATOR
        elif n % 8 >= 3 and n % 8 < 5:
            number = n // 8 * 2 + n % 8 - 3
            content = batch(
                2,
                producer_id=9,
                producer_epoch=0,
                sequence=2 * number,
                transactional=True,
                timestamp=n,
            )
        else:
            producer_id = 7 + n % 2
            sequence = 2 * sum(1 for m in range(n) if m % 2 == n % 2 and (m % 8 < 3 or m % 8 > 5))
            content = batch(
                2, producer_id=producer_id, producer_epoch=0, sequence=sequence, timestamp=n
            )
        _append(log, story, content, origin, epoch=n // 10)
        if n % 7 == 6:
            log.flush(now_ms=n)
            story.durable_offset = log.recovery_point
        if n % 9 == 8:
            log.directory.checkpoint_recovery_points()
    purge(log, 10**9)


def _append(
    log: UnifiedLog, story: Story, content: bytearray, origin: AppendOrigin, epoch: int
) -> None:
    copy = bytearray(content)
    copy[:8] = log.log_end_offset.to_bytes(8, "big")
    copy[12:16] = epoch.to_bytes(4, "big")
    story.contents.append(bytes(copy))
    append_as_leader(log, content, leader_epoch=epoch, now_ms=0, source=AppendSource(origin))
    story.acknowledged_offset = log.log_end_offset
    story.durable_offset = log.recovery_point


def _die(crash_at: int | None, config: LogConfig) -> tuple[SimFiles, Story, bool]:
    files = new_disk(crash_at)
    story = Story()
    try:
        _live(files, story, config)
    except CrashError:
        return files, story, True
    return files, story, False


def _reference(story: Story, count: int) -> UnifiedLog:
    """A log that never crashed, with the first `count` batches."""
    log = new_log(new_disk())
    for content in story.contents[:count]:
        append_as_follower(log, content, leader_epoch=99, now_ms=0)
    return log


def _check(log: UnifiedLog, files: SimFiles, story: Story, promised_offset: int) -> None:
    found = [bytes(b.view) for b in stored_batches(log)]
    assert found == story.contents[: len(found)]
    assert log.log_end_offset >= promised_offset
    names = files.list_directory(FOLDER)
    assert not [name for name in names if name.endswith(LEFT_OVERS)]
    reference = _reference(story, len(found))
    assert log.log_end_offset == reference.log_end_offset
    assert log.leader_epochs.entries == reference.leader_epochs.entries
    assert log.producer_state.ongoing == reference.producer_state.ongoing
    assert log.collect_aborted(0, 10**9) == reference.collect_aborted(0, 10**9)
    for producer_id, entry in reference.producer_state.producers.items():
        recovered = log.producer_state.producers[producer_id]
        assert (recovered.epoch, recovered.last_sequence, recovered.last_data_offset) == (
            entry.epoch,
            entry.last_sequence,
            entry.last_data_offset,
        )
    for segment in log.segments:
        for offset in range(segment.base_offset, log.log_end_offset, 3):
            extent = segment.locate(offset)
            assert extent is None or extent.last_offset >= offset


def _outcomes(files: SimFiles, story: Story) -> list[tuple[CrashMode, int, int]]:
    """Crash mode, seed, and the offset below which everything must be there."""
    if not story.created:
        return []
    return [
        ("kill", 0, story.acknowledged_offset),
        ("lost", 0, story.durable_offset),
        *[("torn", seed, story.durable_offset) for seed in range(3)],
    ]


@pytest.mark.parametrize("flush_messages", [2**63 - 1, 1])
def test_a_crash_at_every_step_loses_only_what_was_not_promised(flush_messages: int) -> None:
    config = replace(SMALL, flush_messages=flush_messages)
    crash_at, crashed = 0, True
    while crashed:
        files, story, crashed = _die(crash_at, config)
        for mode, seed, promised_offset in _outcomes(files, story):
            after = files.restart(mode, seed=seed)
            if not after.exists(FOLDER):
                assert promised_offset == 0
                continue
            _check(reload(after, config), after, story, promised_offset)
        crash_at += 1
    assert crash_at > 60


@pytest.mark.parametrize("mode", ["kill", "lost", "torn"])
def test_recovery_that_crashes_and_is_repeated_finds_the_same(mode: CrashMode) -> None:
    for crash_at in range(10, 90, 11):
        files, story, crashed = _die(crash_at, SMALL)
        assert crashed
        after = files.restart(mode, seed=crash_at)
        if not after.exists(FOLDER):
            continue
        wanted = stored_batches(reload(after))
        step, finished = 0, False
        while not finished:
            again = files.restart(mode, seed=crash_at, crash_at=step)
            try:
                reload(again)
                finished = True
            except CrashError:
                final = again.restart("kill")
                log = reload(final)
                assert [bytes(b.view) for b in stored_batches(log)] == [
                    bytes(b.view) for b in wanted
                ]
                _check(log, final, story, 0)
            step += 1


def test_recovery_scans_only_behind_the_recovery_point() -> None:
    files = new_disk()
    log = new_log(files)
    for n in range(40):
        append_as_leader(log, batch(2, timestamp=n), leader_epoch=0, now_ms=n)
    log.flush(now_ms=0)
    log.directory.checkpoint_recovery_points()
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    bases = log.segments.base_offsets
    files.flip_bits(f"{FOLDER}/{bases[2]:020d}.log", 50)
    found = reload(files.restart("kill"))
    assert found.log_end_offset == 82
    found = reload(files.restart("kill"), recovery_point=bases[2])
    assert found.log_end_offset == bases[2]
    assert found.segments.base_offsets == bases[:3]


def _flushed(count: int = 20) -> tuple[SimFiles, list[int]]:
    """The disk of a log that was killed when all of it was flushed, and its segments."""
    files = new_disk()
    log = new_log(files)
    for n in range(count):
        append_as_leader(log, batch(2, timestamp=n), leader_epoch=0, now_ms=n)
    log.flush(now_ms=0)
    log.directory.checkpoint_recovery_points()
    return files, log.segments.base_offsets


def _remove(files: SimFiles, base_offset: int, suffixes: tuple[str, ...]) -> None:
    for suffix in suffixes:
        files.unlink(f"{FOLDER}/{file_name(base_offset, suffix)}")


ALL_FILES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_log_that_has_lost_what_was_flushed_is_recovered_and_named(is_cut: bool) -> None:
    """An older file was put back, or the last segment removed; what is left is whole."""
    files, bases = _flushed()
    end = bases[-1]
    if is_cut:
        end += 2
        files.open(f"{FOLDER}/{file_name(bases[-1], LOG_SUFFIX)}").truncate(len(batch(2)))
    else:
        _remove(files, bases[-1], ALL_FILES)
    reports: list[str] = []
    log = reload(files.restart("kill"), report=reports.append)
    assert (log.log_end_offset, log.recovery_point) == (end, end)
    (report,) = reports
    assert report.startswith(f"topic-0 ends at offset {end}: {FOLDER} is shorter than it was. ")
    assert f"Offsets {end} to 38 had been flushed, and are lost here" in report


def test_a_loss_that_has_another_reason_is_reported_once() -> None:
    files, bases = _flushed()
    files.flip_bits(f"{FOLDER}/{file_name(bases[-1], LOG_SUFFIX)}", 50)
    reports: list[str] = []
    reload(files.restart("kill"), recovery_point=39, report=reports.append)
    assert [report.partition(":")[0] for report in reports] == [
        f"topic-0 was recovered up to offset {bases[-1]}"
    ]
    reports.clear()
    reload(files.restart("kill"), log_start_offset=60, recovery_point=60, report=reports.append)
    (report,) = [each for each in reports if "was recovered" not in each]
    assert "begins at offset 60" in report


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("number", [0, 2])
def test_a_segment_that_was_removed_is_named_by_its_index(number: int, *, is_clean: bool) -> None:
    files, bases = _flushed(40)
    for gone in (number, number + 1):
        _remove(files, bases[gone], (LOG_SUFFIX,))
    reports: list[str] = []
    files = files.restart("kill")
    log = reload(files, clean=is_clean, report=reports.append)
    assert log.log_end_offset == 80
    (report,) = reports
    assert report.startswith(
        f"{FOLDER}/{file_name(bases[number], LOG_SUFFIX)} is missing, and its index is there: "
        f"offsets {bases[number]} to {bases[number + 2] - 1} of topic-0 are lost here"
    )
    assert ("Only if the broker was killed" in report) is (number == 0 and not is_clean)


def test_an_index_that_a_kill_may_leave_shows_no_loss() -> None:
    """Of a segment below the start, one that was compacted, one that was never flushed."""
    reports: list[str] = []
    for number, options in (
        (0, {"log_start_offset": 12}),
        (2, {"recovery_point": 20}),
        (2, {"config": replace(SMALL, cleanup_policy=frozenset({"compact"}))}),
    ):
        files, bases = _flushed()
        _remove(files, bases[number], (LOG_SUFFIX,))
        reload(files.restart("kill"), report=reports.append, **options)
    assert not [report for report in reports if "is missing" in report]


def test_of_many_ranges_that_are_missing_some_are_named() -> None:
    files, bases = _flushed(96)
    gone = bases[1:-1:2]
    for base_offset in gone:
        _remove(files, base_offset, (LOG_SUFFIX,))
    reports: list[str] = []
    reload(files.restart("kill"), clean=True, report=reports.append)
    (report,) = reports
    assert len(gone) == 7
    assert report.count(" to ") == 5
    assert "and 2 more ranges of topic-0" in report


@pytest.mark.parametrize("position", range(0, 700, 37))
def test_damage_behind_the_recovery_point_ends_the_log_there(position: int) -> None:
    files = new_disk()
    log = new_log(files)
    story = Story()
    for n in range(20):
        _append(log, story, batch(2, timestamp=n), AppendOrigin.CLIENT, epoch=0)
    size = len(story.contents[0])
    segment = log.segments.between(0, 10**9)[position // (6 * size)]
    where = position % (6 * size)
    files.flip_bits(f"{FOLDER}/{segment.base_offset:020d}.log", where)
    found = stored_batches(reload(files.restart("kill")))
    damaged = segment.base_offset // 2 + where // size
    # Base offset and leader epoch lie outside of the checksum.
    if where % size >= 16:
        assert [bytes(b.view) for b in found] == story.contents[:damaged]
    else:
        assert [bytes(b.view) for b in found[:damaged]] == story.contents[:damaged]


def test_a_lost_tail_before_a_segment_that_survived_ends_the_log() -> None:
    files = new_disk()
    log = new_log(files)
    for n in range(20):
        append_as_leader(log, batch(2, timestamp=n), leader_epoch=0, now_ms=n)
    size = len(batch(2))
    bases = log.segments.base_offsets
    files.open(f"{FOLDER}/{bases[1]:020d}.log").truncate(3 * size)
    assert reload(files.restart("kill")).log_end_offset == bases[1] + 6
    compacted = replace(SMALL, cleanup_policy=frozenset({"compact"}))
    assert reload(files.restart("kill"), compacted).log_end_offset == 40


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_damaged_small_files_are_replaced(name: str) -> None:
    files = new_disk()
    log = new_log(files)
    for epoch in range(3):
        append_as_leader(log, batch(2), leader_epoch=epoch, now_ms=0)
    log.close_cleanly(now_ms=0)
    files.open(f"{FOLDER}/{name}").truncate(3)
    found = reload(files, clean=True)
    assert found.leader_epochs.entries == [EpochEntry(0, 0), EpochEntry(1, 2), EpochEntry(2, 4)]
    assert found.log_end_offset == 6


def test_a_damaged_transaction_index_is_built_anew_even_after_a_clean_stop() -> None:
    files = new_disk()
    story = Story()
    _live(files, story, SMALL)
    files = files.restart("kill")
    wanted = reload(files)
    aborted = wanted.collect_aborted(0, 100)
    wanted.close_cleanly(now_ms=0)
    index = next(n for n in files.list_directory(FOLDER) if n.endswith(".txnindex"))
    files.open(f"{FOLDER}/{index}").truncate(33)
    found = reload(files, clean=True)
    assert found.collect_aborted(0, 100) == aborted != []
    assert found.recovery_point < found.log_end_offset


@pytest.mark.parametrize("fields", [(9, 3, 10**6, 10**6), (9, 10**6, 2, 3)])
def test_an_abort_that_cannot_be_in_its_segment_has_the_index_built_anew(
    fields: tuple[int, ...],
) -> None:
    files = new_disk()
    story = Story()
    _live(files, story, SMALL)
    files = files.restart("kill")
    wanted = reload(files)
    aborted = wanted.collect_aborted(0, 100)
    wanted.close_cleanly(now_ms=0)
    names = [n for n in files.list_directory(FOLDER) if n.endswith(".txnindex")]
    for name in names:
        path = f"{FOLDER}/{name}"
        files.open(path).write([pack(">hqqqq", 0, *fields)], files.size(path))
    assert reload(files, clean=True).collect_aborted(0, 10**7) == aborted != []


def test_a_damaged_transaction_index_does_not_move_the_start_of_the_scan() -> None:
    """What lies between the recovery point and its segment was not flushed either."""
    files = new_disk()
    log = new_log(files)
    for epoch in range(30):
        append_as_leader(log, batch(2, value_bytes=30), leader_epoch=epoch, now_ms=0)
    bases = log.segments.base_offsets
    torn = files.open(f"{FOLDER}/{file_name(bases[-3], LOG_SUFFIX)}")
    torn.write([b"\xff"], 40)
    index = f"{FOLDER}/{file_name(bases[-1], TRANSACTION_INDEX_SUFFIX)}"
    if not files.exists(index):
        files.create(index)
    files.open(index).write([b"no index"], 0)
    loaded = reload(files, recovery_point=bases[-3])
    assert loaded.log_end_offset == bases[-3]
    assert loaded.segments.base_offsets == bases[:-2]


def test_orphans_go_and_an_empty_folder_is_a_new_log() -> None:
    files = new_disk()
    files.make_directory(FOLDER)
    for name in ("00000000000000000007.index", "00000000000000000007.txnindex", "x.tmp"):
        files.create(f"{FOLDER}/{name}").close()
    log = reload(files, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert files.list_directory(FOLDER) == [
        "00000000000000000050.index",
        "00000000000000000050.log",
        "00000000000000000050.timeindex",
    ]


def test_segments_below_the_start_of_the_log_are_put_aside() -> None:
    """What is left was to be deleted; but a wrong start looks the same."""
    files = new_disk()
    log = new_log(files)
    for _ in range(12):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    bases = log.segments.base_offsets
    assert len(bases) > 1
    reports: list[str] = []
    found = reload(files.restart("kill"), log_start_offset=100, report=reports.append)
    assert (found.log_start_offset, found.log_end_offset) == (100, 100)
    assert found.leader_epochs.entries == []
    append_as_leader(found, batch(2), leader_epoch=1, now_ms=0)
    names = found.directory.files.list_directory(FOLDER)
    put_aside = [file_name(base, LOG_SUFFIX) + ".aside" for base in bases]
    assert [name for name in names if name.endswith(".aside")] == put_aside
    assert file_name(0, ".index") not in names
    (report,) = reports
    start = "/data/log-start-offset-checkpoint says that topic-0 begins at offset 100, but it"
    assert report.startswith(f"{start} ends at 24")


def test_the_operator_can_bring_back_what_was_put_aside() -> None:
    """As the report says."""
    files = new_disk()
    log = new_log(files)
    for _ in range(12):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    files = files.restart("kill")
    reload(files, log_start_offset=100)
    files = files.restart("kill")
    files.unlink(f"{FOLDER}/{file_name(100, LOG_SUFFIX)}")
    for base in log.segments.base_offsets:
        path = f"{FOLDER}/{file_name(base, LOG_SUFFIX)}"
        files.rename(f"{path}.aside", path)
    assert len(stored_batches(reload(files))) == 12


def test_a_start_beyond_the_end_is_not_believed_after_a_clean_stop() -> None:
    files = new_disk()
    log = new_log(files)
    append_as_leader(log, batch(3), leader_epoch=0, now_ms=0)
    log.flush(now_ms=0)
    log.close()
    reports: list[str] = []
    found = reload(files, clean=True, log_start_offset=30, recovery_point=3, report=reports.append)
    assert (found.log_start_offset, found.log_end_offset) == (0, 3)
    assert len(found.leader_epochs.entries) == 1
    assert len(stored_batches(found)) == 1
    (report,) = reports
    start = "/data/log-start-offset-checkpoint says that topic-0 begins at offset 30, but it"
    assert report.startswith(f"{start} ended at 3 when the broker was stopped")


def test_a_damaged_log_is_refused_before_its_start_is_looked_at() -> None:
    """Nothing of it goes meanwhile."""
    files = new_disk()
    log = new_log(files)
    append_as_leader(log, batch(3), leader_epoch=0, now_ms=0)
    log.flush(now_ms=0)
    log.close()
    before = files.list_directory(FOLDER)
    with pytest.raises(CorruptRecordsError, match="ends at offset 3, and went on to 5"):
        reload(files, clean=True, log_start_offset=30, recovery_point=5)
    assert files.list_directory(FOLDER) == before
