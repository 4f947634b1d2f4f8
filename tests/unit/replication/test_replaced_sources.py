"""Copies of moves whose source is gone, with its disk or without it: one takes its place only where
a swap had begun, by which it has everything. A folder that is left of something else proves none.
"""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kaa.log.files import remove_tree
from kaa.log.properties import read_meta_properties, write_meta_properties, write_topic_id
from kaa.log.sim_files import Fault
from kaa.wire.errors import Errors
from tests.support.ids import uuid
from tests.unit.broker.support import config, formatted
from tests.unit.log.batches import batch
from tests.unit.replication.movers import (
    BASIC,
    DIRECTORIES,
    KEY,
    THIRD,
    THREE,
    alter,
    begin_swap,
    create,
    find,
    futures,
    held_before_the_swap,
    is_assigned,
    log_of,
    moved,
    new_files,
    node,
    plain,
    throttle,
    until,
)

if TYPE_CHECKING:
    from kaa.log.sim_files import SimFiles

RECORDS = 150
ONE = "log.dirs=/a"


def behind(files: SimFiles, *settings: str) -> tuple[str, str]:
    """A move whose target the controller knows, and whose copy lacks what was written last; the
    folder of its source, and its target.
    """

    async def main() -> tuple[str, str]:
        async with node(files, *settings) as broker:
            source, target = await held_before_the_swap(broker)
            await throttle(broker, 1)
            for _ in range(20):
                find(broker).append(batch(3, value_bytes=1000), now_ms=0)
            copy = broker.services.logs.futures.logs[KEY]
            assert copy.log_end_offset < source.log_end_offset
            return source.folder, target.path

    return asyncio.run(main())


def refused(files: SimFiles, *settings: str) -> list[str]:
    """What the next start says, which does not serve the partition."""

    async def main() -> list[str]:
        async with node(files, *settings) as broker:
            assert broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR
            reports: list[str] = broker.reports  # type: ignore[attr-defined]
            return reports

    return asyncio.run(main())


def served(files: SimFiles, *settings: str) -> tuple[str, int]:
    """Where the next start serves the partition, and up to which offset."""

    async def main() -> tuple[str, int]:
        async with node(files, *settings) as broker:
            await until(lambda: find(broker).is_leader)
            log = log_of(broker)
            return log.directory.path, log.log_end_offset

    return asyncio.run(main())


def replace_disk(files: SimFiles, path: str) -> None:
    """Puts a new, formatted disk in the place of one."""
    identity = read_meta_properties(files, path)
    assert identity is not None
    files.rename(path, "/gone")
    files.make_directory(path)
    write_meta_properties(files, path, replace(identity, directory_id=uuid(900)), "test")


def bring_back(files: SimFiles, path: str) -> None:
    if files.exists(path):
        remove_tree(files, path)
    files.rename("/gone", path)


def test_copy_that_lacks_records_does_not_take_the_place_of_a_log_whose_disk_was_replaced() -> None:
    files = new_files()
    folder, target = behind(files)
    path, (copy,) = folder.rpartition("/")[0], futures(files)
    replace_disk(files, path)
    for _ in range(2):
        (text,) = [each for each in refused(files) if each.startswith(copy)]
        assert f"up to offset {RECORDS} " in text
        assert futures(files) == [copy]
    bring_back(files, path)
    assert served(files) == (path, RECORDS + 60)
    assert target != path


def test_copy_that_lacks_records_does_not_take_the_place_of_a_log_that_is_not_configured() -> None:
    files = new_files()
    folder, target = behind(files)
    path, (copy,) = folder.rpartition("/")[0], futures(files)
    assert [each for each in refused(files, f"log.dirs={target}") if each.startswith(copy)]
    assert futures(files) == [copy]
    assert served(files) == (path, RECORDS + 60)


def test_copy_that_lacks_records_is_kept_while_the_disk_of_its_log_is_away() -> None:
    """The disk is all that is needed, and nothing is said of going on without it."""
    files = new_files()
    folder, _ = behind(files)
    path, (copy,) = folder.rpartition("/")[0], futures(files)
    files.rename(path, "/gone")
    assert not [each for each in refused(files) if each.startswith(copy)]
    assert futures(files) == [copy]
    bring_back(files, path)
    assert served(files) == (path, RECORDS + 60)


@pytest.mark.parametrize("is_kept", [False, True])
def test_swap_that_a_crash_ended_is_finished_without_a_disk_that_has_no_part_in_it(
    is_kept: bool,
) -> None:
    files = formatted(config(*BASIC, THREE))

    async def begin() -> tuple[str, str]:
        async with node(files, THREE) as broker:
            source, target = await held_before_the_swap(broker)
            return source.folder, target.path

    folder, target = asyncio.run(begin())
    (third,) = {*DIRECTORIES, THIRD} - {folder.rpartition("/")[0], target}
    begin_swap(files, folder)
    if is_kept:
        # The disk with the copy was away first, and what is left of the source was put aside.
        files.rename(target, "/away")
        refused(files, THREE)
        files.rename("/away", target)
    files.rename(third, "/gone")
    assert served(files, THREE) == (target, RECORDS)


@pytest.mark.parametrize("mark", ["stray", "delete"])
@pytest.mark.parametrize("is_named", [True, False])
def test_folder_that_is_left_of_something_else_does_not_hide_that_a_log_was_removed(
    mark: str, is_named: bool
) -> None:
    """In any directory, and of the same topic as well: it may have moved before."""
    for is_beside in (True, False):
        files = new_files()
        folder, target = behind(files)
        source, (copy,) = folder.rpartition("/")[0], futures(files)
        left = f"{source if is_beside else target}/{KEY}.{'0' * 32}-{mark}"
        files.make_directory(left)
        if is_named:
            content = files.open(f"{folder}/partition.metadata").read(1000, 0)
            files.create(f"{left}/partition.metadata").write([content], 0)
        remove_tree(files, folder)
        assert [each for each in refused(files) if each.startswith(copy)]
        assert futures(files) == [copy]


@pytest.mark.parametrize("is_deleted", [True, False])
def test_only_the_folder_of_a_deleted_topic_excuses_the_name_of_a_log_that_is_gone(
    is_deleted: bool,
) -> None:
    """The only directory: nothing but its checkpoints tells what was there."""
    files = new_files()

    async def fill() -> None:
        async with node(files, ONE) as broker:
            await plain(await create(broker))

    async def begins_empty() -> None:
        async with node(files, ONE) as broker:
            assert log_of(broker).log_end_offset == 0

    asyncio.run(fill())
    remove_tree(files, f"/a/{KEY}")
    left = f"/a/{KEY}.{'0' * 32}-delete"
    files.make_directory(left)
    if is_deleted:
        write_topic_id(files, left, uuid(500))
        asyncio.run(begins_empty())
    else:
        refused(files, ONE)
        refused(files, ONE)


def test_what_an_earlier_move_left_behind_proves_nothing_of_the_copy_of_the_next_one() -> None:
    """It ends before the copy does, and is of the same topic."""
    files = formatted(config(*BASIC, THREE))

    async def main() -> str:
        async with node(files, THREE) as broker:
            partition = await create(broker, file_delete_delay_ms="600000")
            partition.append(batch(3), now_ms=0)
            first = log_of(broker).directory
            await until(lambda: is_assigned(broker, first))
            second, third = [each for each in broker.services.logs.directories if each is not first]
            assert alter(broker, second.path) is Errors.NONE
            await moved(broker, second.path)
            await plain(partition)
            source = log_of(broker)
            source.is_cleaning = True
            assert alter(broker, third.path) is Errors.NONE
            await until(lambda: is_assigned(broker, third))
            await throttle(broker, 1)
            for _ in range(20):
                partition.append(batch(3, value_bytes=1000), now_ms=0)
            return second.path

    second = asyncio.run(main())
    (copy,) = futures(files)
    replace_disk(files, second)
    refused(files, THREE)
    assert futures(files) == [copy]


def test_copy_takes_the_place_of_its_source_when_fewer_files_are_open() -> None:
    files = new_files()

    async def begin() -> tuple[str, str]:
        async with node(files) as broker:
            source, target = await held_before_the_swap(broker)
            return source.folder, target.path

    async def start() -> None:
        async with node(files) as broker:
            # A request for it has it tried again.
            assert log_of(broker).directory.path == target
            assert log_of(broker).log_end_offset == RECORDS
            assert all(each.is_online for each in broker.services.logs.directories)
            reports: list[str] = broker.reports  # type: ignore[attr-defined]
            assert len([each for each in reports if "it is tried again" in each]) == 1

    folder, target = asyncio.run(begin())
    begin_swap(files, folder)
    files.faults = [Fault("open_directory", target, errno.EMFILE, times=2)]
    asyncio.run(start())
    assert futures(files) == []


@pytest.mark.parametrize("is_swapping", [True, False])
def test_longer_copy_of_an_earlier_topic_is_not_taken_for_the_copy_of_this_one(
    is_swapping: bool,
) -> None:
    """Its disk was away when the topic was deleted."""
    files = formatted(config(*BASIC, THREE))

    async def begin() -> tuple[str, str]:
        async with node(files, THREE) as broker:
            source, target = await held_before_the_swap(broker)
            return source.folder, target.path

    async def finish() -> None:
        async with node(files, THREE) as broker:
            await moved(broker, target)
            assert log_of(broker).log_end_offset == RECORDS

    folder, target = asyncio.run(begin())
    (third,) = {*DIRECTORIES, THIRD} - {folder.rpartition("/")[0], target}
    if is_swapping:
        begin_swap(files, folder)
    old = f"{third}/{KEY}.{'0' * 32}-future"
    files.make_directory(old)
    content = b"".join(bytes(batch(3, base_offset=3 * number)) for number in range(200))
    files.create(f"{old}/{0:020}.log").write([content], 0)
    write_topic_id(files, old, uuid(500))
    files.unlink(f"{third}/.kafka_cleanshutdown")
    asyncio.run(finish())
    # With a source it was of no use; without one it may be all that is left of something.
    left = [name.rpartition("-")[2] for name in files.list_directory(third) if "t-0." in name]
    assert "future" not in left
    assert ("stray" in left) is is_swapping
