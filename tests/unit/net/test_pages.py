from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kaa.net import pages

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_what_was_just_written_is_cached(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100_000))
    with path.open("rb") as file:
        pages.warm(file.fileno(), 0, 100_000)
        assert pages.is_cached(file.fileno(), 0, 100_000)


def test_would_block_means_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def preadv(descriptor: int, buffers: list[bytearray], position: int, flags: int) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(pages, "_NOWAIT", 8)
    assert not pages.is_cached(0, 0, 1)


def test_a_hole_in_the_middle_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def preadv(descriptor: int, buffers: list[bytearray], position: int, flags: int) -> int:
        asked.append(position)
        if position == 7 + (2 << 17):
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(pages, "_NOWAIT", 8)
    assert not pages.is_cached(0, 7, 1 << 20)
    assert asked == [7, 7 + (1 << 17), 7 + (2 << 17)]
    asked.clear()
    assert pages.is_cached(0, 7, 1 << 18)
    assert asked == [7, 7 + (1 << 17), 6 + (1 << 18)]


def test_unknown_counts_as_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_NOWAIT", None)
    assert pages.is_cached(-1, 0, 1)
    monkeypatch.setattr(pages, "_NOWAIT", 8)
    assert pages.is_cached(-1, 0, 1)


def test_warming_ends_at_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"short")
    with path.open("rb") as file:
        pages.warm(file.fileno(), 0, 1_000_000)
