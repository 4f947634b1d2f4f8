"""Committers that are killed: a sample of what scripts/soak does for longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kaa.testing import Broker
from tests.spark.lake import kills


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("layout", "seed"), [("iceberg", 1), ("parquet", 2)])
def test_a_committer_that_is_killed_lands_every_record_once(
    broker: Broker, tmp_path: Path, layout: str, seed: int
) -> None:
    kills.run(broker, tmp_path, layout, seed, kills=3)
