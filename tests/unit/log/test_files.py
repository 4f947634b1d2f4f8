"""One conformance suite for both file systems."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from kaa.limits import WRITE_VECTORS_MAX
from kaa.log.files import (
    RealFiles,
    make_durable_directory,
    read_whole,
    remove_tree,
    unlink_if_exists,
    write_atomically,
)
from kaa.log.sim_files import Fault, SimFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kaa.log.files import Files
    from kaa.log.sim_files import Operation


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


def test_errors_name_the_file(disk: tuple[Files, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of open files, of which the system tells only what went wrong."""
    files, root = disk
    path = f"{root}/a"
    file = files.create(path)
    file.write([b"content"], 0)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if isinstance(files, SimFiles):
        kinds: tuple[Operation, ...] = ("write", "truncate", "sync", "sync_directory")
        files.faults += [Fault(kind, "", errno.ENOSPC) for kind in kinds]
    else:
        for name in ("pwritev", "ftruncate", "fdatasync", "fsync", "pread", "preadv"):
            monkeypatch.setattr(os, name, fail)
    calls: list[Callable[[], object]] = [
        lambda: file.write([b"more"], 7),
        lambda: file.truncate(3),
        file.sync,
    ]
    if isinstance(files, RealFiles):
        calls += [lambda: file.read(1, 0), lambda: file.read_into(bytearray(1), 0)]
    for call in calls:
        with pytest.raises(OSError, match="No space") as failure:
            call()
        assert failure.value.filename == path
    with pytest.raises(OSError, match="No space") as failure:
        files.sync_directory(root)
    assert failure.value.filename == root
    file.close()


def test_a_full_disk_names_the_file() -> None:
    files = SimFiles(capacity_bytes=10)
    file = files.create("/a")
    with pytest.raises(OSError, match="No space") as failure:
        file.write([b"more than there is room for"], 0)
    assert failure.value.filename == "/a"


def test_a_file_that_may_only_be_read_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The superuser may write it all the same, so the refusal is played here."""
    path = tmp_path / "a"
    path.write_bytes(b"content")
    system_open = os.open

    def refuse_writers(name: str, flags: int, *rest: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "read-only", name)
        return system_open(name, flags, *rest)

    monkeypatch.setattr(os, "open", refuse_writers)
    file = RealFiles().open(str(path))
    assert file.read(100, 0) == b"content"
    with pytest.raises(OSError, match="Permission denied"):
        file.write([b"x"], 0)
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


def test_lock_tells_whether_its_directory_is_in_its_place(disk: tuple[Files, str]) -> None:
    files, root = disk
    files.make_directory(f"{root}/a")
    lock = files.lock(f"{root}/a/.lock")
    lock.check_place()
    files.unlink(f"{root}/a/.lock")
    lock.check_place()
    files.rename(f"{root}/a", f"{root}/b")
    files.make_directory(f"{root}/a")
    with pytest.raises(OSError, match="was its disk unmounted"):
        lock.check_place()
    lock.release()


def test_a_durable_directory_survives_a_power_cut() -> None:
    files = SimFiles()
    make_durable_directory(files, "/a/b/c")
    make_durable_directory(files, "/a/b/c")
    left = files.restart("lost")
    assert left.is_directory("/a/b/c")


def test_a_durable_directory_with_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_durable_directory(RealFiles(), "a/b")
    assert (tmp_path / "a" / "b").is_dir()


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
