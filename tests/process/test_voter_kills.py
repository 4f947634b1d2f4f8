"""A sample of what `scripts/soak voter_kills` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.voter_kills import Point, VoterStory


@pytest.mark.slow
@pytest.mark.parametrize(
    "points",
    [
        ["election/one/sync/2", "election/returning/write/1"],
        ["follower/leader/torn write/2", "follower/changing/sync/3"],
        ["leader/changing/sync/2", "leader/one/rename/1"],
        ["replacement/joining/sync/4", "replacement/leader/write/1"],
    ],
    ids=lambda points: points[0].partition("/")[0],
)
def test_voters_killed_in_the_middle(tmp_path: Path, points: list[str]) -> None:
    with VoterStory(tmp_path) as story:
        for point in points:
            assert story.play(Point.parse(point)), point
        story.end()
