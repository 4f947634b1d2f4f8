"""A sample of what `scripts/soak voter_kills` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.voter_kills import Point, told


@pytest.mark.slow
def test_a_voter_killed_in_the_middle(tmp_path: Path) -> None:
    assert told(tmp_path, Point("sync", 12, 3))
