from __future__ import annotations

from kaa.log.files import read_whole, write_new
from kaa.testing.memory_files import MemoryFiles


def written() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("/data")
    write_new(files, "/data/synced", b"old")
    file = files.open("/data/synced")
    file.sync()
    files.sync_directory("/data")
    files.sync_directory("/")
    file.write([b"new"], 0)
    file.close()
    write_new(files, "/data/unsynced", b"x")
    return files


def test_a_power_cut_leaves_what_was_synced() -> None:
    left = written().left_by("lost")
    assert left.list_directory("/data") == ["synced"]
    assert read_whole(left, "/data/synced") == b"old"


def test_a_kill_leaves_what_was_written() -> None:
    left = written().left_by("kill")
    assert left.list_directory("/data") == ["synced", "unsynced"]
    assert read_whole(left, "/data/synced") == b"new"


def test_the_files_that_were_copied_live_on_by_themselves() -> None:
    files = written()
    left = files.left_by("kill")
    files.unlink("/data/synced")
    write_new(left, "/data/unsynced", b"other")
    assert read_whole(left, "/data/synced") == b"new"
    assert read_whole(files, "/data/unsynced") == b"x"


def test_no_history_is_kept() -> None:
    assert written().history == []
