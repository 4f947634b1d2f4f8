"""Work on tables that dies or fails at any step: a sample of what scripts/soak does with all."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from kaa.testing import Broker
from tests.spark.lake.fault_stories import WORKS, Bases, Story
from tests.spark.lake.faults import faulty

SEED = 41
POINTS = 3


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bases]:
    with Broker() as running:
        yield Bases(running, tmp_path_factory.mktemp("bases"))


@pytest.mark.parametrize(("layout", "work"), WORKS)
def test_work_that_breaks_off_is_ended_by_the_next(bases: Bases, layout: str, work: str) -> None:
    with faulty() as steps:
        story = Story(bases, layout, work, steps)
        assert len(story.points) >= POINTS
        for point in Random(SEED).sample(story.points, POINTS):
            story.run(steps, point)
