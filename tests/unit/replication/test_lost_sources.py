"""Sources of moves that are lost between a stop and the next start: their copies take no place, and
are not given up either, since they may have what is nowhere else any more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kaa.log.files import read_whole, remove_tree, write_atomically
from kaa.log.sim_files import Fault, SimFiles
from kaa.wire.errors import Errors
from tests.unit.log.batches import batch
from tests.unit.replication.movers import (
    KEY,
    alter,
    create,
    find,
    futures,
    held_before_the_swap,
    log_of,
    new_files,
    node,
    other,
    plain,
    throttle,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW_BYTES_PER_SECOND = 2_000


def _cut(files: SimFiles, folder: str) -> None:
    path = f"{folder}/{'0' * 20}.log"
    files.open(path).truncate(files.size(path) - 1)


@pytest.mark.parametrize("lose", [_cut, remove_tree])
def test_copy_that_lacks_records_does_not_take_the_place_of_a_lost_source(
    lose: Callable[[SimFiles, str], None],
) -> None:
    """The controller knows the target already, and producers went on since."""
    files = new_files()

    async def begin() -> tuple[str, int]:
        async with node(files) as broker:
            source, _ = await held_before_the_swap(broker)
            await throttle(broker, 1)
            for _ in range(20):
                find(broker).append(batch(3, value_bytes=1000), now_ms=0)
            copy = broker.services.logs.futures.logs[KEY]
            assert copy.log_end_offset < source.log_end_offset
            return source.folder, copy.log_end_offset

    async def refuse() -> None:
        async with node(files) as broker:
            assert broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR
            (text,) = [each for each in broker.reports if copy in each]  # type: ignore[attr-defined]
            assert f"up to offset {end_offset} " in text

    async def serve() -> None:
        async with node(files) as broker:
            assert find(broker).is_leader
            assert log_of(broker).log_end_offset == end_offset

    folder, end_offset = asyncio.run(begin())
    (copy,) = futures(files)
    lose(files, folder)
    for _ in range(2):
        asyncio.run(refuse())
        assert futures(files) == [copy]
    # As the report says.
    files.rename(copy, f"{copy.rpartition('/')[0]}/{KEY}")
    asyncio.run(serve())


def test_copy_is_kept_when_the_disk_of_its_source_fails_while_logs_are_loaded() -> None:
    """Also one that is not like its source, and would be made again if that were served."""
    files = new_files()

    async def begin() -> tuple[str, str]:
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            await plain(await create(broker, 6, file_delete_delay_ms="0"))
            source = log_of(broker)
            await until(lambda: not source.is_new)
            later = next(each for each in source.directory.logs.values() if each is not source)
            assert alter(broker, other(source)) is Errors.NONE
            copy = broker.services.logs.futures.logs[KEY]
            await until(lambda: copy.log_end_offset > 3)
            return source.directory.path, later.folder

    async def fail(path: str) -> None:
        async with node(files) as broker:
            assert path not in [each.path for each in broker.services.logs.online_directories]
            assert broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR

    path, later = asyncio.run(begin())
    (copy,) = futures(files)
    content = read_whole(files, f"{copy}/{'0' * 20}.log")
    first_bytes = 12 + int.from_bytes(content[8:12], "big")
    write_atomically(files, f"{copy}/{'0' * 20}.log", content[first_bytes:])
    files.faults = [Fault("open", f"{later}/")]
    asyncio.run(fail(path))
    assert futures(files) == [copy]
