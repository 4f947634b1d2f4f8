"""A move that is cancelled while the disk of its copy is away does not come back with it."""

from __future__ import annotations

import asyncio

import pytest

from kaa.log.names import MOVE_CANCELLED_FILE
from kaa.log.sim_files import SimFiles
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from tests.unit.broker.support import config, formatted
from tests.unit.replication.movers import (
    BASIC,
    KEY,
    THIRD,
    THREE,
    alter,
    create,
    futures,
    is_assigned,
    log_of,
    moved,
    new_files,
    node,
    plain,
    throttle,
    until,
)


def cancelled(files: SimFiles) -> tuple[str, str]:
    """The folder of the log, and the directory of the copy, of a move that was cancelled."""

    async def main() -> tuple[str, str]:
        async with node(files) as broker:
            await throttle(broker, 1)
            await plain(await create(broker))
            source = log_of(broker)
            await until(lambda: is_assigned(broker, source.directory))
            directories = broker.services.logs.directories
            target = next(each for each in directories if each is not source.directory)
            assert alter(broker, target.path) is Errors.NONE
            target.fail(OSError("dead"))
            await until(lambda: not broker.services.logs.futures.logs)
            # Twice makes no difference.
            for _ in range(2):
                assert alter(broker, source.directory.path) is Errors.NONE
            return source.folder, target.path

    return asyncio.run(main())


def test_a_cancelled_move_does_not_come_back_with_the_disk_of_its_copy() -> None:
    files = new_files()
    folder, target = cancelled(files)
    assert futures(files)

    async def after() -> None:
        async with node(files) as broker:
            assert log_of(broker).folder == folder
            assert not broker.services.logs.futures.logs
            assert not futures(files)
            assert not files.exists(f"{folder}/{MOVE_CANCELLED_FILE}")
            # Another one is begun and finished as any.
            await throttle(broker, None)
            assert alter(broker, target) is Errors.NONE
            await moved(broker, target)

    asyncio.run(after())


def test_a_cancelled_move_stays_so_while_the_disk_of_its_copy_is_away() -> None:
    files = new_files()
    folder, target = cancelled(files)
    files.rename(target, "/away")

    async def after(*, is_noted: bool) -> None:
        async with node(files) as broker:
            await until(lambda: log_of(broker).folder == folder)
            assert not broker.services.logs.futures.logs
            assert files.exists(f"{folder}/{MOVE_CANCELLED_FILE}") is is_noted

    asyncio.run(after(is_noted=True))
    files.rename("/away", target)
    asyncio.run(after(is_noted=False))
    assert not futures(files)


@pytest.mark.parametrize("is_away_at_the_start", [True, False])
def test_a_cancelled_move_stays_so_when_its_disk_is_taken_out_and_put_back(
    is_away_at_the_start: bool,
) -> None:
    """Meanwhile the log moves to another disk, and with it what is known of the copy."""
    files = formatted(config(*BASIC, THREE))
    folder, target = cancelled(files)
    files.rename(target, "/gone")
    directory = folder.rpartition("/")[0]
    elsewhere = f"log.dirs={directory},{THIRD}"

    async def cancel() -> None:
        files.unlink(f"{folder}/{MOVE_CANCELLED_FILE}")
        async with node(files) as broker:
            await until(lambda: isinstance(broker.services.replicas.find(*KEY), Partition))
            assert alter(broker, directory) is Errors.NONE

    async def without() -> None:
        async with node(files, elsewhere) as broker:
            await throttle(broker, None)
            assert alter(broker, THIRD) is Errors.NONE
            await moved(broker, THIRD)

    async def again() -> None:
        async with node(files, THREE) as broker:
            await until(lambda: not files.exists(f"{log_of(broker).folder}/{MOVE_CANCELLED_FILE}"))
            assert log_of(broker).directory.path == THIRD
            assert not broker.services.logs.futures.logs
            assert not futures(files)

    if is_away_at_the_start:
        asyncio.run(cancel())
    asyncio.run(without())
    files.rename("/gone", target)
    asyncio.run(again())


def test_a_damaged_copy_of_a_cancelled_move_is_not_made_again() -> None:
    files = new_files()
    folder, _ = cancelled(files)
    (copy,) = futures(files)
    for name in files.list_directory(copy):
        if name.endswith(".log"):
            files.open(f"{copy}/{name}").write([b"\xff" * 20], 0)

    async def after() -> None:
        async with node(files) as broker:
            assert log_of(broker).folder == folder
            assert not broker.services.logs.futures.logs
            assert not futures(files)

    asyncio.run(after())
