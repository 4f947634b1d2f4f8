"""Disks that failed while a log was made or moved, and come back when the other one is away or
damaged: what they have is old, and is not led.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kaa.log.files import read_whole, remove_tree, write_atomically
from kaa.log.sim_files import Fault, SimFiles
from kaa.replication.partition import Partition
from tests.unit.log.batches import batch
from tests.unit.replication.movers import (
    KEY,
    create_topic,
    find,
    held_before_the_swap,
    is_assigned,
    log_of,
    new_files,
    node,
    plain,
    until,
)
from tests.unit.replication.test_replaced_sources import refused, served

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 150
MORE_RECORDS = 60
NOTES = "/m/void-logs"


def source_fails(files: SimFiles) -> tuple[str, str]:
    """In the swap, and the copy goes on: the directory with the old log, and that with the new."""

    async def main() -> tuple[str, str]:
        async with node(files) as broker:
            source, target = await held_before_the_swap(broker)
            files.faults = [Fault("rename", source.directory.path)]
            source.is_cleaning = False
            await until(lambda: log_of(broker).directory is target)
            files.faults = []
            for _ in range(MORE_RECORDS // 3):
                find(broker).append(batch(3), now_ms=0)
            return source.directory.path, target.path

    return asyncio.run(main())


def target_fails(files: SimFiles) -> tuple[str, str]:
    """In the swap, after it got the plain name, and the source goes on."""

    async def main() -> tuple[str, str]:
        async with node(files) as broker:
            source, target = await held_before_the_swap(broker)
            files.faults = [Fault("sync_directory", target.path)]
            source.is_cleaning = False
            await until(lambda: not target.is_online and is_assigned(broker, source.directory))
            files.faults = []
            assert log_of(broker) is source
            for _ in range(MORE_RECORDS // 3):
                find(broker).append(batch(3), now_ms=0)
            return target.path, source.directory.path

    return asyncio.run(main())


def maker_fails(files: SimFiles) -> tuple[str, str]:
    """While a log is made, which is made on the other disk then."""

    async def main() -> tuple[str, str]:
        async with node(files) as broker:
            files.faults = [Fault("create", f"/a/{KEY}/", skip=1)]
            await create_topic(broker)
            await until(lambda: isinstance(broker.services.replicas.find(*KEY), Partition))
            files.faults = []
            directory = log_of(broker).directory
            await until(lambda: is_assigned(broker, directory))
            await plain(find(broker))
            for _ in range(MORE_RECORDS // 3):
                find(broker).append(batch(3), now_ms=0)
            return "/a", directory.path

    return asyncio.run(main())


@pytest.mark.parametrize("fail", [source_fails, target_fails, maker_fails])
def test_old_log_is_not_led_while_the_disk_with_the_new_one_is_away(
    fail: Callable[[SimFiles], tuple[str, str]],
) -> None:
    files = new_files()
    old, new = fail(files)
    files.rename(new, "/gone")
    for _ in range(2):
        (text,) = [each for each in refused(files) if each.startswith(f"{old}/{KEY} ")]
        assert NOTES in text
    files.rename("/gone", new)
    assert served(files) == (new, RECORDS + MORE_RECORDS)
    left = [name for name in files.list_directory(old) if name.startswith(str(KEY))]
    assert [name.rpartition("-")[2] for name in left] == ["stray"]
    assert read_whole(files, NOTES) == b""


def _cut(files: SimFiles, folder: str) -> None:
    path = f"{folder}/{'0' * 20}.log"
    files.open(path).truncate(files.size(path) - 1)


@pytest.mark.parametrize("lose", [_cut, remove_tree])
@pytest.mark.parametrize("fail", [source_fails, target_fails])
def test_old_log_is_not_led_instead_of_one_that_is_damaged_or_removed(
    fail: Callable[[SimFiles], tuple[str, str]], lose: Callable[[SimFiles, str], None]
) -> None:
    files = new_files()
    old, new = fail(files)
    lose(files, f"{new}/{KEY}")
    for _ in range(2):
        assert [each for each in refused(files) if each.startswith(f"{old}/{KEY} ")]
    assert files.exists(f"{old}/{KEY}")


def test_old_log_is_gone_on_with_as_the_report_says() -> None:
    files = new_files()
    old, new = source_fails(files)
    remove_tree(files, f"{new}/{KEY}")
    refused(files)
    lines = [line for line in read_whole(files, NOTES).splitlines() if b"t 0 " not in line]
    write_atomically(files, NOTES, b"".join(lines))
    assert served(files) == (old, RECORDS)
