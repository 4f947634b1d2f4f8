"""Logs and copies with records that do not tell of which topic they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaa.controller.port import ControllerRequestContext
from kaa.log.files import read_whole, write_atomically
from kaa.log.names import CLEAN_SHUTDOWN_FILE, PARTITION_METADATA_FILE
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.primitives import UUID_ZERO
from tests.unit.broker.support import config, formatted
from tests.unit.log.batches import batch
from tests.unit.replication.movers import (
    BASIC,
    DIRECTORIES,
    KEY,
    THIRD,
    THREE,
    alter,
    contents,
    create,
    create_topic,
    find,
    futures,
    held_before_the_swap,
    is_assigned,
    log_of,
    moved,
    new_files,
    node,
    plain,
    until,
)

if TYPE_CHECKING:
    from kaa.broker.node import Broker
    from kaa.log.sim_files import SimFiles


async def make_again(broker: Broker) -> None:
    """Deletes the topic, and creates another one of that name."""
    topic = DeleteTopicState(name=KEY.topic, topic_id=UUID_ZERO)
    request = DeleteTopicsRequest(topics=[topic], timeout_ms=60_000)
    response = await broker.services.controller.submit(request, ControllerRequestContext(6))
    assert [result.error_code for result in response.responses] == [Errors.NONE]
    await until(lambda: KEY.topic not in broker.services.image.topics)
    await create_topic(broker)
    await until(lambda: KEY.topic in broker.services.image.topics)


def tear(files: SimFiles, folder: str) -> None:
    """What a power cut leaves of a file that was not synced."""
    write_atomically(files, f"{folder}/{PARTITION_METADATA_FILE}", b"")
    for path in DIRECTORIES:
        files.unlink(f"{path}/{CLEAN_SHUTDOWN_FILE}")


def strays(files: SimFiles) -> list[str]:
    return [
        f"{path}/{name}"
        for path in DIRECTORIES
        for name in files.list_directory(path)
        if name.endswith("-stray")
    ]


def restarted(files: SimFiles) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with node(files) as broker:
            await until(lambda: is_assigned(broker, log_of(broker).directory))
            await until(lambda: not broker.services.logs.futures.logs)
            return contents(log_of(broker))

    return asyncio.run(main())


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_log_without_its_topic_is_that_of_the_topic_it_was_made_for(
    *, is_made_again: bool
) -> None:
    files = new_files()

    async def begin() -> tuple[str, dict[str, Any]]:
        async with node(files) as broker:
            await plain(await create(broker))
            await until(lambda: is_assigned(broker, log_of(broker).directory))
            log = log_of(broker)
            if is_made_again:
                # As while the broker is stopped.
                broker._are_replicas_started = False
                await make_again(broker)
            return log.folder, contents(log)

    folder, before = asyncio.run(begin())
    tear(files, folder)
    after = restarted(files)
    assert after["end"] == (0 if is_made_again else before["end"])
    assert len(strays(files)) == is_made_again


def test_a_copy_without_its_topic_does_not_become_the_log_of_another_one() -> None:
    files = new_files()

    async def begin() -> None:
        async with node(files) as broker:
            await held_before_the_swap(broker)
            broker._are_replicas_started = False
            await make_again(broker)

    asyncio.run(begin())
    (copy,) = futures(files)
    tear(files, copy)
    assert restarted(files)["end"] == 0


def test_a_copy_without_its_topic_is_made_again() -> None:
    files = new_files()

    async def begin() -> str:
        async with node(files) as broker:
            _, target = await held_before_the_swap(broker)
            return target.path

    target = asyncio.run(begin())
    (copy,) = futures(files)
    tear(files, copy)
    files.rename(target, "/away")

    async def write() -> bytes:
        async with node(files) as broker:
            await make_again(broker)
            await until(lambda: isinstance(broker.services.replicas.find(*KEY), Partition))
            for number in range(60):
                # As many bytes as the deleted topic has.
                content = batch(3, value_bytes=100, timestamp=1_000_000 + number)
                find(broker).append(content, now_ms=number)
            return bytes(contents(log_of(broker))["records"])

    before = asyncio.run(write())
    files.rename("/away", target)

    async def arrive() -> bytes:
        async with node(files) as broker:
            await moved(broker, target)
            return bytes(contents(log_of(broker))["records"])

    assert asyncio.run(arrive()) == before


@pytest.mark.parametrize("assigned", range(3))
def test_of_three_logs_without_their_topic_none_is_served_and_all_are_kept(assigned: int) -> None:
    """Whichever of them the metadata names: an operator decides, as with two."""
    files = formatted(config(*BASIC, THREE))
    paths = (*DIRECTORIES, THIRD)

    async def begin() -> str:
        async with node(files, THREE) as broker:
            await plain(await create(broker))
            await until(lambda: is_assigned(broker, log_of(broker).directory))
            if log_of(broker).directory.path != paths[assigned]:
                assert alter(broker, paths[assigned]) is Errors.NONE
                await moved(broker, paths[assigned])
                await until(lambda: is_assigned(broker, log_of(broker).directory))
            return log_of(broker).folder

    folder = asyncio.run(begin())
    folders = [f"{path}/{KEY}" for path in paths]
    tear(files, folder)
    files.unlink(f"{THIRD}/{CLEAN_SHUTDOWN_FILE}")
    for path in set(folders) - {folder}:
        files.make_directory(path)
        for name in files.list_directory(folder):
            write_atomically(files, f"{path}/{name}", read_whole(files, f"{folder}/{name}"))

    async def refuse() -> None:
        async with node(files, THREE) as broker:
            assert broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR

    for _ in range(2):
        asyncio.run(refuse())
        assert [path for path in folders if files.exists(path)] == folders
