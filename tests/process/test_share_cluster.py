"""A queue on three nodes, of which the one that leads it, and those that keep its state and its
group, are killed and stand still.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.process.queue_story import LONG_SECONDS, SETTINGS, SHORT_SECONDS, check, tell
from tests.process.queue_workers import Workers
from tests.support.cluster_process import ClusterProcesses

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("seed", "pause_seconds"), [(1, SHORT_SECONDS), (2, LONG_SECONDS)], ids=["short", "long"]
)
def test_a_queue_survives_what_happens_to_its_nodes(
    tmp_path: Path, seed: int, pause_seconds: float
) -> None:
    with ClusterProcesses(tmp_path / "cluster", *SETTINGS) as cluster:
        workers = Workers(cluster.bootstrap_servers, Random(seed))
        asyncio.run(tell(cluster, workers, pause_seconds))
        cluster.check_health()
    check(workers, pause_seconds)
