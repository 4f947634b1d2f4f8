"""Directories that come back without what was in them, or under another name."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from kaa.log.checkpoints import encode_offset_checkpoint
from kaa.log.files import remove_tree, write_atomically
from kaa.log.properties import read_meta_properties, write_meta_properties, write_topic_id
from kaa.wire.errors import Errors
from tests.support.ids import uuid
from tests.unit.replication.movers import KEY, create, find, log_of, new_files, node, plain, until

if TYPE_CHECKING:
    from kaa.log.sim_files import SimFiles

RECORDS = 150


async def filled(files: SimFiles, *settings: str) -> str:
    """A topic whose directory the controller knows; that directory."""
    async with node(files, *settings) as broker:
        await plain(await create(broker))
        directory, image = log_of(broker).directory, broker.services.image
        await until(
            lambda: image.topics["t"].partitions[0].directories[0] == directory.directory_id
        )
        return directory.path


def checkpoints(files: SimFiles, path: str) -> list[str]:
    return [f"{path}/{each}" for each in files.list_directory(path) if "checkpoint" in each]


async def reports_of(files: SimFiles, error: Errors | None, *settings: str) -> list[str]:
    """What the next start says, which does not serve the partition, or from the start."""
    async with node(files, *settings) as broker:
        found = broker.services.replicas.find(*KEY)
        assert found is error if error else find(broker).online_log().log_end_offset == 0
        reports: list[str] = broker.reports  # type: ignore[attr-defined]
        return reports


def test_log_that_was_removed_with_all_checkpoints_is_not_made_again_empty() -> None:
    files = new_files()
    path = asyncio.run(filled(files))
    remove_tree(files, f"{path}/{KEY}")
    for checkpoint in checkpoints(files, path):
        files.unlink(checkpoint)
    for _ in range(3):
        reports = asyncio.run(reports_of(files, Errors.KAFKA_STORAGE_ERROR))
        (line,) = [line for line in reports if "no log was found of t-0" in line]
        assert "no empty log takes their place" in line


def forget(files: SimFiles, path: str) -> None:
    """Removes the log, and its name from the checkpoints."""
    remove_tree(files, f"{path}/{KEY}")
    for checkpoint in checkpoints(files, path):
        write_atomically(files, checkpoint, encode_offset_checkpoint({}))


def test_log_that_was_reported_is_not_made_again_empty_where_no_checkpoint_names_it() -> None:
    """It was removed in the seconds before the first checkpoint with its name."""
    files = new_files()
    forget(files, asyncio.run(filled(files)))
    for _ in range(3):
        reports = asyncio.run(reports_of(files, Errors.KAFKA_STORAGE_ERROR))
        (line,) = [line for line in reports if "no log was found of t-0" in line]
        assert "no empty log takes their place" in line


def test_log_of_which_nothing_tells_begins_empty_and_not_without_a_word() -> None:
    """Its folder was not durable yet when the disk failed. The controller has placed it: with one
    directory there is nothing to report.
    """
    files, only = new_files(), "log.dirs=/a"
    forget(files, asyncio.run(filled(files, only)))
    reports = asyncio.run(reports_of(files, None, only))
    (line,) = [line for line in reports if "no log was found" in line]
    assert "t-0" in line
    assert "begin empty" in line
    reports = asyncio.run(reports_of(files, None, only))
    assert not [line for line in reports if "no log was found" in line]


def test_log_that_names_another_topic_is_shown_where_an_empty_one_takes_its_place() -> None:
    files, only = new_files(), "log.dirs=/a"
    path = asyncio.run(filled(files, only))
    files.unlink(f"{path}/{KEY}/partition.metadata")
    write_topic_id(files, f"{path}/{KEY}", uuid(99))
    reports = asyncio.run(reports_of(files, None, only))
    (aside,) = [name for name in files.list_directory(path) if name.endswith("-stray")]
    (line,) = [line for line in reports if aside in line]
    assert line.startswith(
        f"{path}/{aside} was the log of t-0, and its partition.metadata does not"
    )
    assert "it was put aside, and t-0 begins empty" in line
    assert not [line for line in reports if "nothing shows that there ever was one" in line]


def test_first_start_marks_its_directories_before_there_is_a_log() -> None:
    files = new_files()

    async def main() -> None:
        async with node(files):
            assert checkpoints(files, "/a")
            assert checkpoints(files, "/b")

    asyncio.run(main())


def test_directory_with_another_id_has_its_leaders_at_once() -> None:
    files = new_files()
    path = asyncio.run(filled(files))
    identity = read_meta_properties(files, path)
    assert identity is not None
    write_meta_properties(files, path, replace(identity, directory_id=uuid(900)), "test")

    async def main() -> None:
        async with node(files) as broker:
            await until(lambda: find(broker).is_leader)
            assert log_of(broker).log_end_offset == RECORDS
            image = broker.services.image.topics["t"].partitions[0]
            assert image.directories == (uuid(900),)

    asyncio.run(main())
