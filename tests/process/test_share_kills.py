"""A queue over kills: members and the broker die in the middle, and nothing is lost or repeated
that must not be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.process.queue_workers import (
    DELIVERIES_MAX,
    EVERYTHING,
    QUICK,
    RECORDS,
    Workers,
    is_done,
    prepare,
)
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS
from tests.support.queue_history import problems

MEMBERS, KILLS = 3, 2


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "node", *QUICK) as running:
        yield running


async def run(node: BrokerProcess, workers: Workers) -> None:
    await prepare(node.bootstrap_servers)
    async with asyncio.timeout(PATIENCE_SECONDS * 4), asyncio.TaskGroup() as tasks:
        members = [tasks.create_task(workers.work(f"m{number}")) for number in range(MEMBERS)]
        for kill in range(1, KILLS + 1):
            await workers.has_ended(RECORDS * kill // (KILLS + 2))
            await asyncio.to_thread(node.kill)
            await asyncio.to_thread(node.start)
        done = False
        while not done:
            await asyncio.sleep(0.2)
            done = await is_done(workers)
        for member in members:
            member.cancel()


@pytest.mark.parametrize("seed", [1])
def test_a_queue_survives_kills_of_broker_and_members(node: BrokerProcess, seed: int) -> None:
    workers = Workers(node.bootstrap_servers, Random(seed))
    asyncio.run(run(node, workers))
    found = problems(workers.history, EVERYTHING, DELIVERIES_MAX)
    # What ended without an answer to its member is not known here, but the broker has ended it.
    found = [text for text in found if "never ended" not in text]
    assert not found, "\n".join(found)
    assert len(workers.ended) > RECORDS // 2
