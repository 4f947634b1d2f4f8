"""Topics that are created while too many files are open."""

from __future__ import annotations

import asyncio
import errno

import pytest

from kaa.log.sim_files import Fault
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from tests.unit.log.batches import batch
from tests.unit.replication.movers import DIRECTORIES, KEY, create_topic, new_files, node


@pytest.mark.parametrize("name", [f"{'0' * 20}.log", "partition.metadata"])
def test_too_many_open_files_cost_a_new_partition_a_moment_and_no_disk(name: str) -> None:
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            files.faults = [Fault("create", f"{KEY}/{name}", errno.EMFILE, times=3)]
            await create_topic(broker)
            find = broker.services.replicas.find
            assert find(*KEY) is Errors.KAFKA_STORAGE_ERROR
            files.faults = []
            partition = find(*KEY)
            assert isinstance(partition, Partition)
            assert partition.is_leader
            partition.append(batch(3), now_ms=0)
            assert all(each.is_online for each in broker.services.logs.directories)
            told = [each for each in broker.reports if "too many files" in each]  # type: ignore[attr-defined]
            assert len(told) == 1

    async def again() -> None:
        async with node(files) as broker:
            partition = broker.services.replicas.find(*KEY)
            assert isinstance(partition, Partition)
            assert partition.online_log().log_end_offset == 3

    asyncio.run(main())
    names = [each for path in DIRECTORIES for each in files.list_directory(path)]
    assert names.count(str(KEY)) == 1
    asyncio.run(again())
