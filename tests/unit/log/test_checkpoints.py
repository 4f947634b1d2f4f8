"""Offset checkpoints: the frame, what is corrupt, and that a crash leaves one of two tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.log.checkpoints import (
    decode_checkpoint,
    encode_offset_checkpoint,
    read_offset_checkpoint,
)
from kaa.log.errors import CorruptFileError
from kaa.log.files import write_new
from kaa.log.sim_files import SimFiles
from kaa.model.topics import TopicPartition


def _files() -> SimFiles:
    files = SimFiles()
    files.make_directory("/d")
    return files


def test_bytes_are_kafkas() -> None:
    table = {TopicPartition("cmp", 0): 20000, TopicPartition("plain", 0): 5794}
    assert encode_offset_checkpoint(table) == b"0\n2\ncmp 0 20000\nplain 0 5794\n"


@given(
    st.dictionaries(
        st.tuples(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 10**6)),
        st.integers(0, 2**63 - 1),
    )
)
def test_written_tables_are_read_back(table: dict[tuple[str, int], int]) -> None:
    files = _files()
    offsets = {TopicPartition(*key): offset for key, offset in table.items()}
    write_new(files, "/d/c", encode_offset_checkpoint(offsets))
    assert read_offset_checkpoint(files, "/d/c") == offsets


def test_missing_and_empty_files_are_empty_tables() -> None:
    files = _files()
    assert read_offset_checkpoint(files, "/d/c") == {}
    files.create("/d/c").close()
    assert read_offset_checkpoint(files, "/d/c") == {}


@pytest.mark.parametrize(
    "content",
    [
        b"0",
        b"x\n0\n",
        b"1\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na x 1\n",
        b"0\n1\na 0 -1\n",
        b"0\n1\na 0 9223372036854775808\n",
        b"0\n0\na 0 1\n",
        b"\xff\xfe\n0\n",
        b"0\n1000000000000\n",
    ],
)
def test_broken_frames_are_corrupt(content: bytes) -> None:
    files = _files()
    file = files.create("/d/c")
    file.write([content], 0)
    with pytest.raises(CorruptFileError, match="/d/c"):
        read_offset_checkpoint(files, "/d/c")


@given(st.binary(max_size=200))
def test_any_bytes_give_a_table_or_corruption(content: bytes) -> None:
    try:
        entries = decode_checkpoint("c", content, 3)
    except CorruptFileError:
        return
    assert all(len(entry) == 3 for entry in entries)
