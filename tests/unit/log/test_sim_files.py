"""What a crash, a power cut and a failing disk leave of the simulated file system."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from kaa.log.files import read_whole, write_atomically
from kaa.log.sim_files import PAGE_BYTES, CrashError, Fault, SimFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.sim_files import CrashMode, Inspection


def test_a_killed_process_loses_nothing() -> None:
    files = _disk_with("/d/a", b"synced")
    file = files.open("/d/a")
    file.write([b"unsynced"], 6)
    files.create("/d/b").close()
    after = files.restart("kill")
    assert read_whole(after, "/d/a") == b"syncedunsynced"
    assert after.exists("/d/b")
    with pytest.raises(CrashError):
        file.read(1, 0)


def test_a_power_cut_loses_what_was_not_synced() -> None:
    files = _disk_with("/d/a", b"synced")
    file = files.open("/d/a")
    file.write([b"unsynced"], 6)
    files.create("/d/b").close()
    files.rename("/d/a", "/d/c")
    after = files.restart("lost")
    assert read_whole(after, "/d/a") == b"synced"
    assert after.list_directory("/d") == ["a"]


def test_sync_after_truncation_and_growth_is_exact() -> None:
    files = _disk_with("/d/a", b"x" * (3 * PAGE_BYTES))
    file = files.open("/d/a")
    file.truncate(PAGE_BYTES + 1)
    file.write([b"y" * 10], 2 * PAGE_BYTES)
    file.sync()
    wanted = b"x" * (PAGE_BYTES + 1) + bytes(PAGE_BYTES - 1) + b"y" * 10
    assert read_whole(files.restart("lost"), "/d/a") == wanted


def test_torn_pages_mix_old_new_and_zeros() -> None:
    outcomes = set()
    for seed in range(60):
        files = _disk_with("/d/a", b"o" * PAGE_BYTES)
        file = files.open("/d/a")
        file.write([b"n" * (2 * PAGE_BYTES)], 0)
        content = read_whole(files.restart("torn", seed=seed), "/d/a")
        assert PAGE_BYTES <= len(content) <= 2 * PAGE_BYTES
        assert set(content[:PAGE_BYTES]) <= set(b"on")
        assert set(content[PAGE_BYTES:]) <= set(b"n\0")
        outcomes.add(frozenset(content))
    assert frozenset(b"on") in outcomes
    assert frozenset(b"n") in outcomes


def test_directory_operations_survive_as_a_prefix() -> None:
    seen = set()
    for seed in range(40):
        files = _disk_with("/d/a", b"")
        files.create("/d/b").close()
        files.rename("/d/b", "/d/c")
        files.unlink("/d/a")
        seen.add(tuple(files.restart("torn", seed=seed).list_directory("/d")))
    assert seen == {("a",), ("a", "b"), ("a", "c"), ("c",)}


def test_crash_at_an_operation_stops_everything() -> None:
    files = SimFiles(crash_at=2)
    files.make_directory("/d")
    file = files.create("/d/a")
    with pytest.raises(CrashError):
        file.write([b"0123456789"], 0)
    with pytest.raises(CrashError):
        files.exists("/d/a")
    file.close()
    assert b"0123456789".startswith(read_whole(files.restart("kill"), "/d/a"))
    assert files.open_handles == 0


@pytest.mark.parametrize("mode", ["kill", "lost", "torn"])
def test_write_atomically_leaves_old_or_new_at_every_step(mode: CrashMode) -> None:
    done = False
    for crash_at in range(20):
        for seed in range(5):
            files = _disk_with("/d/c", b"old", crash_at=crash_at)
            done = True
            try:
                write_atomically(files, "/d/c", b"new")
            except CrashError:
                done = False
            content = read_whole(files.restart(mode, seed=seed), "/d/c")
            assert content == b"new" if done else content in {b"old", b"new"}
        if done:
            return
    pytest.fail("the write never finished")


def test_faults_are_raised_where_planned() -> None:
    files = _disk_with("/d/a", b"")
    files.faults.append(Fault("sync", "/d/a", errno.EIO, skip=1))
    file = files.open("/d/a")
    file.sync()
    with pytest.raises(OSError, match=r".") as caught:
        file.sync()
    assert caught.value.errno == errno.EIO
    file.sync()


def test_reads_may_fail_and_are_no_moments_to_crash_at() -> None:
    files = _disk_with("/d/a", b"abc", crash_at=0)
    file = files.open("/d/a")
    reads: dict[Inspection, Callable[[], object]] = {
        "open": lambda: files.open("/d/a"),
        "read": lambda: file.read(3, 0),
        "size": lambda: files.size("/d/a"),
        "list": lambda: files.list_directory("/d"),
    }
    for operation, read in reads.items():
        files.faults = [Fault(operation, "/d")]
        with pytest.raises(OSError, match=r".") as caught:
            read()
        assert caught.value.errno == errno.EIO
        read()
    assert not files.dead


def test_a_full_disk_takes_a_prefix_at_most() -> None:
    files = SimFiles(capacity_bytes=10)
    files.make_directory("/d")
    file = files.create("/d/a")
    file.write([b"12345678"], 0)
    with pytest.raises(OSError, match=r".") as caught:
        file.write([b"90abcd"], 8)
    assert caught.value.errno == errno.ENOSPC
    assert b"1234567890abcd".startswith(file.read(100, 0))


def test_flipped_bits_are_read_back() -> None:
    files = _disk_with("/d/a", b"abc")
    files.flip_bits("/d/a", 1, 0x01)
    assert read_whole(files, "/d/a") == b"acc"


def _disk_with(path: str, content: bytes, crash_at: int | None = None) -> SimFiles:
    """A disk with one durable file, that dies `crash_at` operations later."""
    files = SimFiles()
    files.make_directory(path.rpartition("/")[0])
    file = files.create(path)
    file.write([content], 0)
    file.sync()
    files.sync_directory("/d")
    files.sync_directory("/")
    files.crash_at = None if crash_at is None else len(files.history) + crash_at
    file.close()
    return files
