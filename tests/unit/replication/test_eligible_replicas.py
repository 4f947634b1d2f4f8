"""Eligible leader replicas (KIP-966) whose logs are not there any more."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from kaa.controller.directories import LOST
from kaa.log.files import remove_tree
from kaa.log.properties import read_clean_shutdown
from kaa.wire.errors import Errors
from tests.unit.controller.cluster import directory
from tests.unit.replication.brokers import Brokers, is_replicated, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaa.controller.image import PartitionImage

RECORDS = 10


def image(brokers: Brokers) -> PartitionImage:
    return brokers.controller.image.topics["t"].partitions[0]


@asynccontextmanager
async def without_log() -> AsyncIterator[tuple[Brokers, asyncio.TaskGroup]]:
    """Broker 0 was stopped cleanly, is eligible, and is back without its log, which broker 1 leads
    and does not hand out.
    """
    brokers = Brokers(2)
    brokers.controller.create("t", replicas=[[0, 1]], configs={"min.insync.replicas": "2"})
    async with brokers.running() as tasks:
        partition, end = brokers.produce(RECORDS)
        await until(lambda: is_replicated(partition, end))
        epoch = brokers[0].epoch()
        brokers[0].stop()
        brokers.controller.fence(0)
        remove_tree(brokers[0].files, "/data/t-0")
        brokers[1].cut_off.add(0)
        brokers.restart(0, tasks, epoch)
        assert image(brokers).eligible_leader_replicas == (0,)
        yield brokers, tasks


@pytest.mark.parametrize("is_told", [False, True])
def test_an_eligible_replica_without_its_log_leads_no_empty_one(*, is_told: bool) -> None:
    async def story() -> None:
        async with without_log() as (brokers, _):
            if is_told:
                brokers[0].report_directories()
                assert image(brokers).directories[0] == LOST
                # It gets a log now, which is empty.
                assert brokers[0].partition().online_log().log_end_offset == 0
            brokers.controller.heartbeat(1)
            brokers.fail(1)
            if not is_told:
                # It was elected, and has nothing to lead.
                assert image(brokers).leader == 0
                assert brokers[0].manager.find("t", 0) is Errors.KAFKA_STORAGE_ERROR
                brokers[0].report_directories()
                assert brokers[0].manager.find("t", 0) is Errors.KAFKA_STORAGE_ERROR
            assert image(brokers).leader == -1

    asyncio.run(story())


def test_an_eligible_replica_without_its_log_is_filled_and_leads_then() -> None:
    async def story() -> None:
        async with without_log() as (brokers, _):
            brokers[0].report_directories()
            brokers[1].cut_off.clear()
            await until(lambda: set(image(brokers).isr) == {0, 1})
            brokers[0].report_directories()
            assert image(brokers).directories[0] == directory(0, 0)
            assert not brokers[0].assignments.wanted
            brokers.controller.heartbeat(1)
            brokers.fail(1)
            assert image(brokers).leader == 0
            assert brokers[0].partition().online_log().log_end_offset == RECORDS
            assert not brokers[0].logs.unfilled

    asyncio.run(story())


def test_a_stop_before_an_eligible_replica_is_filled_is_not_clean() -> None:
    async def story() -> None:
        async with without_log() as (brokers, tasks):
            brokers[0].report_directories()
            brokers[0].stop()
            previous_epoch = read_clean_shutdown(brokers[0].files, "/data")
            assert previous_epoch == -1
            brokers.controller.heartbeat(1)
            brokers.restart(0, tasks, previous_epoch)
            assert image(brokers).eligible_leader_replicas == ()
            brokers[0].report_directories()
            assert image(brokers).directories[0] == directory(0, 0)
            brokers.controller.heartbeat(1)
            brokers.fail(1)
            assert image(brokers).leader == -1

    asyncio.run(story())


def test_a_log_that_is_found_again_is_told_and_led() -> None:
    async def story() -> None:
        async with without_log() as (brokers, tasks):
            brokers[0].report_directories()
            brokers[1].cut_off.clear()
            await until(lambda: set(image(brokers).isr) == {0, 1})
            epoch = brokers[0].epoch()
            # The controller has not been told where it is.
            brokers[0].stop()
            brokers.controller.fence(0)
            brokers.restart(0, tasks, epoch)
            assert image(brokers).eligible_leader_replicas == (0,)
            assert image(brokers).directories[0] == LOST
            brokers[0].report_directories()
            brokers.controller.heartbeat(1)
            brokers.fail(1)
            assert image(brokers).leader == 0

    asyncio.run(story())
