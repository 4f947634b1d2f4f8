from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.serving.disk_space import disk_space

if TYPE_CHECKING:
    from pathlib import Path


def test_a_disk(tmp_path: Path) -> None:
    total_bytes, usable_bytes = disk_space(str(tmp_path))
    assert 0 < usable_bytes <= total_bytes


def test_no_disk(tmp_path: Path) -> None:
    assert disk_space(str(tmp_path / "absent")) == (-1, -1)
