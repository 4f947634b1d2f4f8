"""A replica of many segments that moves while it is written: a small one of `scripts/soak`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.soak.large_move import MIB, tell

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def test_every_byte_is_as_it_was(tmp_path: Path) -> None:
    tell(tmp_path, 64, 8 * MIB)
