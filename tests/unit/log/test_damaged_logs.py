"""Logs that somebody has removed or damaged while no broker ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaa.log.files import remove_tree
from kaa.log.sim_files import SimFiles
from tests.unit.log.logs import run_jobs
from tests.unit.log.managers import (
    TOPIC_ID,
    A,
    B,
    filled,
    new_manager,
    partition_of,
    start,
    started,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_log_that_somebody_removed_is_known_to_be_lost_until_there_is_another_one() -> None:
    files = SimFiles()
    manager = started(files, (A, B))
    for number in range(4):
        filled(manager, partition_of(number))
    gone = next(iter(manager.directories[1].logs))
    stop(manager)
    remove_tree(files, f"{B}/{gone}")
    for _ in range(2):
        manager = started(files, (A, B))
        assert [one for one in map(partition_of, range(4)) if manager.is_lost(one)] == [gone]
        stop(manager)
    manager = started(files, (A, B))
    manager.get_or_create(gone, TOPIC_ID, now_ms=0)
    assert not manager.is_lost(gone)
    # The new one is recovered from where it begins, not from where the old one was durable.
    for directory in manager.directories:
        assert directory.read_checkpoint("recovery-point-offset-checkpoint").get(gone, 0) == 0
    manager = started(files.restart("kill"), (A, B))
    assert not manager.is_lost(gone)


def test_a_log_that_somebody_removed_stays_lost_while_checkpoints_are_written() -> None:
    """By the clock, and after a deletion; the broker is killed then."""
    files = SimFiles()
    manager = started(files)
    for number in range(3):
        filled(manager, partition_of(number))
    stop(manager)
    remove_tree(files, f"{A}/t-0")
    for now_ms in (0, 61_000):
        manager = started(files)
        assert manager.is_lost(partition_of(0))
        run_jobs(manager.tick(0), 0)
        if now_ms == 0:
            manager.delete([partition_of(1)], now_ms=0)
        run_jobs(manager.tick(now_ms), now_ms)
        files = files.restart("kill")
    assert started(files).is_lost(partition_of(0))


def test_a_log_that_somebody_removed_soon_after_it_was_made_is_lost() -> None:
    """Its high watermark was noted, and nothing else yet."""
    files = SimFiles()
    manager = started(files)
    filled(manager, partition_of(0))
    manager.directories[0].checkpoint_high_watermarks()
    remove_tree(files, f"{A}/t-0")
    assert started(files.restart("kill")).is_lost(partition_of(0))


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_whose_segments_somebody_removed_is_lost(is_clean: bool) -> None:
    files = SimFiles()
    manager = started(files)
    filled(manager, partition_of(0))
    filled(manager, partition_of(1))
    # Trimmed to its end: there is nothing in it, and nobody took anything.
    manager.delete_records(partition_of(1), 20)
    if is_clean:
        stop(manager)
    else:
        run_jobs(manager.tick(0), 0)
        run_jobs(manager.tick(61_000), 61_000)
    for name in files.list_directory(f"{A}/t-0"):
        if name.endswith((".log", ".index", ".timeindex")):
            files.unlink(f"{A}/t-0/{name}")
    files = files.restart("kill")
    for _ in range(2):
        manager = started(files)
        assert manager.is_lost(partition_of(0))
        assert not manager.is_lost(partition_of(1))
        files = files.restart("kill")
    manager = started(files)
    assert manager.get_or_create(partition_of(0), TOPIC_ID, now_ms=0).log_end_offset == 0
    assert not manager.is_lost(partition_of(0))


def _zero(files: SimFiles, path: str) -> None:
    half = files.size(path) // 2
    files.open(path).write([bytes(files.size(path) - half)], half)


def _cut(files: SimFiles, path: str) -> None:
    files.open(path).truncate(files.size(path) - 1)


@pytest.mark.parametrize("damage", [_zero, _cut, SimFiles.unlink])
def test_a_clean_log_that_is_damaged_since_is_not_served_and_named(
    damage: Callable[[SimFiles, str], None],
) -> None:
    """Its directory and the other one go on; another log may take its place, and nothing of it is
    deleted.
    """
    files = SimFiles()
    manager = started(files, (A, B))
    for number in range(4):
        filled(manager, partition_of(number))
    bad = next(iter(manager.directories[0].logs))
    newest = manager.logs[bad].segments.active.path(".log")
    stop(manager)
    damage(files, newest)
    for _ in range(2):
        reports: list[str] = []
        manager = new_manager(files, (A, B))
        manager.directories[0].report = reports.append
        start(manager)
        assert [one for one in map(partition_of, range(4)) if one not in manager.logs] == [bad]
        assert manager.is_lost(bad)
        (report,) = reports
        assert f"{bad} is damaged and not served: {A}/{bad}" in report
        assert f"remove {A}/.kafka_cleanshutdown" in report
        stop(manager)
    manager = started(files, (A, B))
    assert manager.get_or_create(bad, TOPIC_ID, now_ms=0).log_end_offset == 0
    (aside,) = manager.strays
    assert files.exists(f"{aside}/{'0' * 20}.log")
    stop(manager)
    manager = started(files, (A, B))
    assert not manager.is_lost(bad)


def test_what_is_valid_of_a_damaged_log_is_recovered_without_the_marker() -> None:
    files = SimFiles()
    manager = started(files)
    newest = filled(manager, partition_of(0)).segments.active
    path, base_offset = newest.path(".log"), newest.base_offset
    stop(manager)
    _cut(files, path)
    size = files.size(path)
    files.unlink(f"{A}/.kafka_cleanshutdown")
    reports: list[str] = []
    manager = new_manager(files)
    manager.directories[0].report = reports.append
    start(manager)
    log = manager.logs[partition_of(0)]
    end = log.log_end_offset
    assert base_offset <= end < 20
    (report,) = reports
    kept = log.segments.active.size
    assert f"t-0 was recovered up to offset {end}: {path} has no valid batch at {kept}" in report
    assert f"{size - kept} bytes" in report
    assert f"Offsets {end} to 19 had been flushed" in report


def test_a_damaged_log_goes_with_its_topic() -> None:
    files = SimFiles()
    manager = started(files)
    path = filled(manager, partition_of(0)).segments.active.path(".log")
    stop(manager)
    files.unlink(path)
    manager = started(files)
    manager.delete([partition_of(0)], now_ms=0)
    assert not files.exists(f"{A}/t-0")
    run_jobs(manager.tick(10**6), 10**6)
    assert [name for name in files.list_directory(A) if name.startswith("t-0")] == []


def test_a_log_that_this_broker_removed_or_was_about_to_is_not_lost() -> None:
    files = SimFiles()
    manager = started(files, (A, B))
    for number in range(2):
        filled(manager, partition_of(number))
    stop(manager)
    manager = started(files, (A, B))
    first = next(iter(manager.directories[0].logs))
    manager.delete([first], now_ms=0)
    second = next(iter(manager.directories[1].logs))
    files.rename(f"{B}/{second}", f"{B}/{second}.{'0' * 32}-future")
    manager = started(files.restart("kill"), (A, B))
    # The cluster has it no more, or another topic of that name.
    for _ in manager.mark_strays(lambda key, topic_id: (key, topic_id) != (first, TOPIC_ID), 0):
        pass
    assert not manager.is_lost(first)
    assert not manager.is_lost(second)
    assert manager.get_or_create(first, TOPIC_ID, now_ms=0).log_end_offset == 0
    assert manager.futures.logs[second].log_end_offset == 20
