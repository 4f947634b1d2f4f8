"""One conformance suite for both file systems."""

from __future__ import annotations

import errno
import os
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
from kaa.log.sim_files import SimFiles

if TYPE_CHECKING:
    from pathlib import Path

    from kaa.log.files import Files


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
    with pytest.raises(OSError, match="Bad file descriptor"):
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
