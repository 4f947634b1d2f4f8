"""A log directory that is not what it was: the others serve, and nothing is made again empty."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from kaa.broker.directories import StorageLostError
from kaa.broker.node import Broker, running
from kaa.controller.directories import UNASSIGNED
from kaa.controller.port import ControllerRequestContext
from kaa.log.dirs import LogDirectory
from kaa.log.files import remove_tree, write_new
from kaa.log.properties import MetaProperties, read_meta_properties, write_meta_properties
from kaa.log.sim_files import Fault
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kaa.wire.primitives import UUID_ZERO
from tests.support.ids import uuid
from tests.unit.broker.support import config, formatted
from tests.unit.log.batches import batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.config.server import BrokerConfig
    from kaa.log.sim_files import SimFiles

FIRST, SECOND = "/a", "/b"
SETTINGS = config(f"log.dirs={FIRST},{SECOND}", f"metadata.log.dir={FIRST}")
PARTITIONS = 6
SECONDS_MAX = 60


async def create_topic(broker: Broker, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    response = await broker.services.controller.submit(request, ControllerRequestContext(7))
    assert [result.error_code for result in response.topics] == [Errors.NONE]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():  # noqa: ASYNC110  Metadata changes by itself.
            await asyncio.sleep(0.01)


def directories(broker: Broker, topic: str) -> list[object]:
    partitions = broker.services.image.topics[topic].partitions
    return [partitions[number].directories[0] for number in range(PARTITIONS)]


def fill(files: SimFiles, *, waits: bool = True) -> set[int]:
    """Writes five records to each partition; returns those in the second directory."""

    async def main() -> set[int]:
        async with running(Broker(SETTINGS, files=files)) as broker:
            await create_topic(broker, "t")
            second: set[int] = set()
            for number in range(PARTITIONS):
                found = broker.services.replicas.find("t", number)
                assert isinstance(found, Partition)
                found.append(batch(5), now_ms=0)
                if found.online_log().directory.path == SECOND:
                    second.add(number)
            if waits:
                await until(lambda: UNASSIGNED not in directories(broker, "t"))
            return second

    found = asyncio.run(main())
    assert len(found) == PARTITIONS // 2
    return found


def lose(files: SimFiles) -> None:
    files.rename(SECOND, "/gone")


def empty(files: SimFiles) -> None:
    lose(files)
    files.make_directory(SECOND)


def mistake(files: SimFiles) -> None:
    """A disk of another cluster in the place of ours."""
    empty(files)
    write_meta_properties(files, SECOND, MetaProperties(1, "other", uuid(900)), "test")


def replace(files: SimFiles) -> None:
    """A new disk, formatted for this node."""
    identity = read_meta_properties(files, FIRST)
    assert identity is not None
    empty(files)
    own = MetaProperties(identity.node_id, identity.cluster_id, uuid(900))
    write_meta_properties(files, SECOND, own, "test")


def damage(files: SimFiles) -> None:
    empty(files)
    write_new(files, f"{SECOND}/meta.properties", b"nonsense")


@pytest.mark.parametrize(
    ("happen", "waits", "words"),
    [
        (lose, True, "/b is offline: it does not exist; mount its disk"),
        (lose, False, "/b is offline: it does not exist; mount its disk"),
        (empty, True, "storage format --ignore-formatted"),
        (empty, False, "storage format --ignore-formatted"),
        (mistake, True, "it belongs to cluster other"),
        (damage, True, "/b/meta.properties"),
        (replace, True, "Bring the disk back"),
    ],
)
def test_nothing_of_a_lost_directory_is_made_again(
    happen: Callable[[SimFiles], None], words: str, *, waits: bool
) -> None:
    files = formatted(SETTINGS)
    lost = fill(files, waits=waits)
    happen(files)
    reports: list[str] = []

    async def main() -> None:
        async with running(Broker(SETTINGS, files=files, report=reports.append)) as broker:
            for number in range(PARTITIONS):
                found = broker.services.replicas.find("t", number)
                if number in lost:
                    assert found is Errors.KAFKA_STORAGE_ERROR
                else:
                    assert isinstance(found, Partition)
                    assert found.is_leader
                    assert found.online_log().log_end_offset == 5
            partitions = broker.services.image.topics["t"].partitions
            if waits:
                assert {number for number in lost if partitions[number].leader == -1} == lost
            await create_topic(broker, "new")
            for number in range(PARTITIONS):
                found = broker.services.replicas.find("new", number)
                assert isinstance(found, Partition)
                assert found.is_leader

    asyncio.run(main())
    text = "\n".join(reports)
    assert words in text
    assert f"t-{min(lost)}" in text


def test_lost_directory_is_whole_when_it_is_back() -> None:
    files = formatted(SETTINGS)
    fill(files)
    lose(files)

    async def without() -> None:
        async with running(Broker(SETTINGS, files=files)):
            pass

    async def again() -> None:
        async with running(Broker(SETTINGS, files=files)) as broker:
            for number in range(PARTITIONS):
                found = broker.services.replicas.find("t", number)
                assert isinstance(found, Partition)
                assert found.is_leader
                assert found.online_log().log_end_offset == 5

    asyncio.run(without())
    files.rename("/gone", SECOND)
    asyncio.run(again())


def test_log_whose_folder_is_gone_is_not_made_again_until_its_topic_is() -> None:
    """The repair of a file system, or somebody, has removed it from a directory that is whole."""
    files = formatted(SETTINGS)
    gone = min(fill(files))
    remove_tree(files, f"{SECOND}/t-{gone}")
    reports: list[str] = []

    async def start() -> None:
        async with running(Broker(SETTINGS, files=files, report=reports.append)) as broker:
            for number in range(PARTITIONS):
                found = broker.services.replicas.find("t", number)
                assert (found is Errors.KAFKA_STORAGE_ERROR) == (number == gone)
            assert f"no log was found of t-{gone}, which" in reports[-1]

    async def make_again() -> None:
        async with running(Broker(SETTINGS, files=files)) as broker:
            await delete_topic(broker, "t")
            await create_topic(broker, "t")
            found = broker.services.replicas.find("t", gone)
            assert isinstance(found, Partition)
            assert found.online_log().log_end_offset == 0

    for _ in range(2):
        asyncio.run(start())
    asyncio.run(make_again())


def test_folders_are_durable_when_the_controller_knows_of_them() -> None:
    """Nothing of their logs was flushed, and no checkpoint written."""
    files = formatted(SETTINGS)

    async def main() -> None:
        async with running(Broker(SETTINGS, files=files)) as broker:
            await create_topic(broker, "t")
            await until(lambda: UNASSIGNED not in directories(broker, "t"))
            history = list(enumerate(files.history))
            for path in (FIRST, SECOND):
                folder = f"{path}/t-"
                made = [at for at, (_, name) in history if name.startswith(folder)]
                synced = [at for at, step in history if step == ("sync_directory", path)]
                assert max(made) < max(synced)

    asyncio.run(main())


def failure_of(settings: BrokerConfig, files: SimFiles, *broken: str) -> str:
    """Why a node stops whose directories fail one after the other."""

    async def main() -> None:
        async with running(Broker(settings, files=files)) as broker:
            for directory in broker.services.logs.directories:
                if directory.path in broken:
                    directory.fail(OSError(f"{directory.path} is dead"))
                    await asyncio.sleep(0)
            await asyncio.sleep(SECONDS_MAX)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(main())
    lost, others = caught.value.split(StorageLostError)
    assert others is None
    assert lost is not None
    return str(lost.exceptions[0])


def test_node_stops_when_the_directory_of_its_metadata_fails() -> None:
    text = failure_of(SETTINGS, formatted(SETTINGS), FIRST)
    assert "/a, the directory of the metadata log, has failed: /a is dead" in text


def test_broker_stops_when_all_its_log_directories_have_failed() -> None:
    settings = config(f"log.dirs={FIRST},{SECOND}", "metadata.log.dir=/m")
    text = failure_of(settings, formatted(settings), FIRST, SECOND)
    assert "all log directories have failed, /b last: /b is dead" in text


def test_failure_of_one_directory_is_told_and_costs_its_partitions_alone() -> None:
    files = formatted(SETTINGS)
    lost = fill(files)

    async def main() -> None:
        reports: list[str] = []
        async with running(Broker(SETTINGS, files=files, report=reports.append)) as broker:
            second = next(each for each in broker.services.logs.directories if each.path == SECOND)
            second.fail(OSError(errno.ENOSPC, "dead"))
            assert f"{SECOND} is offline: [Errno 28] dead; make room on its disk" in reports[-1]
            partitions = broker.services.image.topics["t"].partitions
            await until(lambda: all(partitions[number].leader == -1 for number in lost))
            for number in range(PARTITIONS):
                found = broker.services.replicas.find("t", number)
                assert (found is Errors.KAFKA_STORAGE_ERROR) == (number in lost)
            brokers = broker.services.image.brokers
            assert second.directory_id not in brokers[broker.config.node_id].directories
            # Nothing keeps the disk from being unmounted.
            assert not [path for path in files.open_paths() if path.startswith(f"{SECOND}/")]
            LogDirectory(files, SECOND).take_lock()

    asyncio.run(main())


async def set_cordoned(broker: Broker, value: str | None) -> None:
    name = str(broker.config.node_id)
    change = AlterableConfig(
        name="cordoned.log.dirs", config_operation=0 if value else 1, value=value
    )
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name=name, configs=[change])]
    )
    response = await broker.services.controller.submit(request, ControllerRequestContext(1))
    assert [each.error_code for each in response.responses] == [Errors.NONE]


def test_cordoned_directory_takes_no_new_partitions_until_it_is_open_again() -> None:
    async def main() -> None:
        settings = config(
            f"log.dirs={FIRST},{SECOND}", f"metadata.log.dir={FIRST}", f"cordoned.log.dirs={SECOND}"
        )
        async with running(Broker(settings, files=formatted(settings))) as broker:
            node_id = broker.config.node_id
            second = next(each for each in broker.services.logs.directories if each.path == SECOND)

            def cordoned() -> tuple[object, ...] | None:
                return broker.services.image.brokers[node_id].cordoned_directories

            await until(lambda: cordoned() == (second.directory_id,))
            await create_topic(broker, "t")
            await until(lambda: UNASSIGNED not in directories(broker, "t"))
            assert second.directory_id not in directories(broker, "t")
            await set_cordoned(broker, "*")
            await until(lambda: len(cordoned() or ()) == 2)
            topic = CreatableTopic(name="u", num_partitions=1, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
            response = await broker.services.controller.submit(request, ControllerRequestContext(7))
            assert response.topics[0].error_code == Errors.INVALID_REPLICATION_FACTOR
            await set_cordoned(broker, FIRST)
            await until(lambda: cordoned() not in {None, (second.directory_id,)})
            await until(lambda: len(cordoned() or ()) == 1)
            await create_topic(broker, "v")
            await until(lambda: UNASSIGNED not in directories(broker, "v"))
            assert set(directories(broker, "v")) == {second.directory_id}

    asyncio.run(main())


async def delete_topic(broker: Broker, name: str) -> None:
    row = DeleteTopicState(name=name, topic_id=UUID_ZERO)
    request = DeleteTopicsRequest(topics=[row], timeout_ms=60_000)
    response = await broker.services.controller.submit(request, ControllerRequestContext(7))
    assert [result.error_code for result in response.responses] == [Errors.NONE]


@pytest.mark.parametrize("clean", [True, False])
def test_a_disk_that_comes_back_after_its_topics_were_made_again(*, clean: bool) -> None:
    """Its logs are of topics that are gone: they are put aside, and the new ones win."""
    files = formatted(SETTINGS)
    lost = fill(files)
    if not clean:
        files.unlink(f"{SECOND}/.kafka_cleanshutdown")
    lose(files)

    async def make_again() -> None:
        async with running(Broker(SETTINGS, files=files)) as broker:
            await delete_topic(broker, "t")
            await create_topic(broker, "t")
            for number in range(PARTITIONS):
                found = broker.services.replicas.find("t", number)
                assert isinstance(found, Partition)
                found.append(batch(2), now_ms=0)

    reports: list[str] = []

    async def return_to() -> None:
        async with running(Broker(SETTINGS, files=files, report=reports.append)) as broker:
            topic = broker.services.image.topics["t"]
            for number in range(PARTITIONS):
                found = broker.services.replicas.find("t", number)
                assert isinstance(found, Partition)
                assert found.is_leader
                log = found.online_log()
                assert (log.topic_id, log.log_end_offset) == (topic.id, 2)
                assert log.directory.path == FIRST

    asyncio.run(make_again())
    files.rename("/gone", SECOND)
    for _ in range(2):
        asyncio.run(return_to())
    strays = [name for name in files.list_directory(SECOND) if name.endswith("-stray")]
    assert sorted(int(name.split(".")[0].removeprefix("t-")) for name in strays) == sorted(lost)
    for name in strays:
        assert any(f"{SECOND}/{name}" in line for line in reports)


def test_a_directory_that_fails_while_its_logs_are_loaded_is_let_go_of() -> None:
    files = formatted(SETTINGS)
    second = fill(files)

    async def main() -> None:
        files.faults = [Fault("open", f"{SECOND}/t-{max(second)}/")]
        async with running(Broker(SETTINGS, files=files)) as broker:
            assert not files.faults[0].times
            logs, replicas = broker.services.logs, broker.services.replicas
            loaded = logs.directories[1].logs
            assert {key.partition for key in loaded} == second - {max(second)}
            await until(lambda: all(log.is_closed for log in loaded.values()))
            for number in range(PARTITIONS):
                found = replicas.find("t", number)
                if number in second:
                    assert found is Errors.KAFKA_STORAGE_ERROR
                else:
                    assert isinstance(found, Partition)
                    assert found.is_leader

    asyncio.run(main())


def _previous_epochs(settings: BrokerConfig, files: SimFiles) -> tuple[int, int]:
    """With which epoch of its last stop a node registers, and which it has then."""

    async def main() -> tuple[int, int]:
        async with running(Broker(settings, files=files)) as broker:
            assert broker._lifecycle is not None
            return broker._lifecycle._identity.previous_epoch, broker._broker_epoch()

    return asyncio.run(main())


def test_a_stop_was_clean_only_if_all_directories_are_there() -> None:
    files = formatted(SETTINGS)
    _, epoch = _previous_epochs(SETTINGS, files)
    assert _previous_epochs(SETTINGS, files)[0] == epoch
    files.rename(SECOND, "/away")
    assert _previous_epochs(SETTINGS, files)[0] == -1
    files.rename("/away", SECOND)
    # It tells of an earlier stop than the other one.
    assert _previous_epochs(SETTINGS, files)[0] == -1
    shrunk = config(f"log.dirs={FIRST}", f"metadata.log.dir={FIRST}")
    assert _previous_epochs(shrunk, files)[0] == -1
