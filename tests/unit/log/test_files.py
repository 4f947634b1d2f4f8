"""One conformance suite for both file systems, and what a crash leaves of the simulated one."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from kaa.limits import WRITE_VECTORS_MAX
from kaa.log.files import (
    RealFiles,
    read_whole,
    remove_tree,
    unlink_if_exists,
    write_atomically,
)
from kaa.log.sim_files import PAGE_BYTES, CrashError, Fault, SimFiles

if TYPE_CHECKING:
    from pathlib import Path

    from kaa.log.files import Files
    from kaa.log.sim_files import CrashMode


@pytest.fixture(params=["real", "sim"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param == "real":
        return RealFiles(), str(tmp_path)
    files = SimFiles()
    files.make_directory("/data")
    return files, "/data"


def test_read_and_write_at_positions(disk: tuple[Files, str]) -> None:
    files, root = disk
    file = files.create(f"{root}/a")
    assert file.write([b"hello ", memoryview(b"world")], 0) == 11
    assert file.write([b"HELLO"], 0) == 5
    assert file.read(100, 0) == b"HELLO world"
    assert file.read(5, 6) == b"world"
    assert file.read(5, 11) == b""
    buffer = bytearray(8)
    assert file.read_into(buffer, 6) == 5
    assert buffer == b"world\0\0\0"
    assert file.size() == files.size(f"{root}/a") == 11
    file.write([b"!"], 13)
    assert file.read(100, 9) == b"ld\0\0!"
    file.sync()
    file.close()
    file.close()


def test_many_buffers_go_out_in_one_write(disk: tuple[Files, str]) -> None:
    files, root = disk
    file = files.create(f"{root}/a")
    assert file.write([b"x"] * (WRITE_VECTORS_MAX + 1), 0) == WRITE_VECTORS_MAX + 1
    assert file.size() == WRITE_VECTORS_MAX + 1
    file.close()


def test_truncate_cuts_and_extends(disk: tuple[Files, str]) -> None:
    files, root = disk
    file = files.create(f"{root}/a")
    file.write([b"0123456789"], 0)
    file.truncate(4)
    assert file.read(100, 0) == b"0123"
    file.truncate(6)
    assert file.read(100, 0) == b"0123\0\0"
    file.close()


def test_open_needs_a_file_and_create_empties_it(disk: tuple[Files, str]) -> None:
    files, root = disk
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/a")
    file = files.create(f"{root}/a")
    file.write([b"old"], 0)
    file.close()
    file = files.create(f"{root}/a")
    assert file.size() == 0
    file.close()


def test_names(disk: tuple[Files, str]) -> None:
    files, root = disk
    files.make_directory(f"{root}/d/e")
    files.make_directory(f"{root}/d/e")
    files.create(f"{root}/d/b").close()
    files.create(f"{root}/d/a").close()
    assert files.list_directory(f"{root}/d") == ["a", "b", "e"]
    assert files.is_directory(f"{root}/d/e")
    assert not files.is_directory(f"{root}/d/a")
    assert not files.is_directory(f"{root}/d/none")
    files.rename(f"{root}/d/a", f"{root}/d/b")
    assert files.list_directory(f"{root}/d") == ["b", "e"]
    with pytest.raises(OSError, match=r".") as caught:
        files.remove_directory(f"{root}/d")
    assert caught.value.errno == errno.ENOTEMPTY
    assert unlink_if_exists(files, f"{root}/d/b")
    assert not unlink_if_exists(files, f"{root}/d/b")
    files.sync_directory(f"{root}/d")
    remove_tree(files, f"{root}/d")
    assert not files.exists(f"{root}/d")
    with pytest.raises(FileNotFoundError):
        files.list_directory(f"{root}/d")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{root}/x", f"{root}/y")


def test_renamed_and_unlinked_files_stay_readable(disk: tuple[Files, str]) -> None:
    files, root = disk
    file = files.create(f"{root}/a")
    file.write([b"kept"], 0)
    files.rename(f"{root}/a", f"{root}/b")
    files.unlink(f"{root}/b")
    assert file.read(4, 0) == b"kept"
    file.close()


def test_modified_time_can_be_set(disk: tuple[Files, str]) -> None:
    files, root = disk
    files.create(f"{root}/a").close()
    files.set_modified_ms(f"{root}/a", 1_700_000_000_123)
    assert files.modified_ms(f"{root}/a") == 1_700_000_000_123


def test_lock_is_held_by_one(disk: tuple[Files, str]) -> None:
    files, root = disk
    lock = files.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        files.lock(f"{root}/.lock")
    lock.release()
    files.lock(f"{root}/.lock").release()


def test_write_atomically(disk: tuple[Files, str]) -> None:
    files, root = disk
    write_atomically(files, f"{root}/c", b"one")
    write_atomically(files, f"{root}/c", b"two")
    assert read_whole(files, f"{root}/c") == b"two"
    assert files.list_directory(root) == ["c"]


def test_real_files_do_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match=r"."):
        RealFiles().open(str(tmp_path / "link"))


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
    """A disk with one durable file, that dies ``crash_at`` operations later."""
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
