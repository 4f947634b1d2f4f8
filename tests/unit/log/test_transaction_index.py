"""Aborted transactions of a segment."""

from __future__ import annotations

from struct import pack

import pytest

from kaa.log.errors import CorruptFileError
from kaa.log.files import read_whole
from kaa.log.sim_files import SimFiles
from kaa.log.transaction_index import AbortedTransaction, TransactionIndex

ABORTS = [
    AbortedTransaction(7, 10, 20, 15),
    AbortedTransaction(8, 15, 30, 25),
    AbortedTransaction(7, 25, 40, 41),
]


def _index(files: SimFiles, aborts: list[AbortedTransaction]) -> TransactionIndex:
    files.make_directory("/d")
    index = TransactionIndex(files, "/d/x", 0)
    for abort in aborts:
        index.append(abort)
    return index


def test_bytes_are_kafkas() -> None:
    files = SimFiles()
    _index(files, ABORTS[:1])
    assert read_whole(files, "/d/x") == pack(">hqqqq", 0, 7, 10, 20, 15)


def test_no_abort_no_file() -> None:
    files = SimFiles()
    index = _index(files, [])
    assert index.collect(0, 100) == ([], False)
    assert index.flush() is None
    assert files.list_directory("/d") == []


@pytest.mark.parametrize("reload", [False, True])
def test_collect(reload: bool) -> None:
    files = SimFiles()
    index = _index(files, ABORTS)
    if reload:
        index = TransactionIndex(files, "/d/x", 0)
    assert index.collect(0, 100) == (ABORTS, False)
    assert index.collect(0, 41) == (ABORTS, True)
    assert index.collect(0, 15) == (ABORTS[:1], True)
    assert index.collect(21, 26) == ([ABORTS[1], ABORTS[2]], True)
    assert index.collect(41, 100) == ([], False)


def test_truncation_and_further_appends() -> None:
    files = SimFiles()
    index = _index(files, ABORTS)
    index.truncate_to(40)
    index.truncate_to(40)
    assert index.entries == ABORTS[:2]
    assert files.size("/d/x") == 68
    index = TransactionIndex(files, "/d/x", 0)
    index.append(ABORTS[2])
    assert TransactionIndex(files, "/d/x", 0).entries == ABORTS
    index.reset()
    assert index.entries == []
    assert not files.exists("/d/x")
    index.close()


@pytest.mark.parametrize(
    "content",
    [
        bytes(33),
        pack(">hqqqq", 1, 7, 10, 20, 15),
        pack(">hqqqq", 0, 7, 10, -5, 15),
        pack(">hqqqq", 0, 7, 10, 20, 15) * 2,
    ],
)
def test_damage_is_noticed(content: bytes) -> None:
    files = SimFiles()
    files.make_directory("/d")
    files.create("/d/x").write([content], 0)
    with pytest.raises(CorruptFileError):
        TransactionIndex(files, "/d/x", 0).entries  # noqa: B018 - the property reads the file


def test_what_was_written_is_synced_though_its_file_was_closed() -> None:
    files = SimFiles()
    index = _index(files, ABORTS)
    index.close()
    assert index.changes > index.durable_changes
    found = index.flush()
    assert found is not None
    found.sync()
    files.sync_directory("/")
    files.sync_directory("/d")
    assert len(read_whole(files.restart("lost"), "/d/x")) == 34 * len(ABORTS)
    index.durable_changes = index.changes
    index.close()
    assert index.flush() is None


def test_a_file_that_goes_is_a_change() -> None:
    index = _index(SimFiles(), ABORTS)
    index.durable_changes = index.changes
    index.reset()
    assert index.changes > index.durable_changes
    assert index.flush() is None
