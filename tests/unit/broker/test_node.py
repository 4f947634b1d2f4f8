from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kaa.broker import node as node_module
from kaa.broker.assembly import BoundListeners
from kaa.broker.directories import StartError
from kaa.broker.lifecycle.controllers import ControllerRegistration
from kaa.broker.lifecycle.driver import BrokerLifecycle
from kaa.broker.metadata import NodeMetadata
from kaa.broker.node import Broker, running
from kaa.client.connection import Connection, ConnectionSettings
from kaa.config.topic import topic_default
from kaa.controller.port import ControllerRequestContext
from kaa.log.files import read_whole
from kaa.log.manager import LogManager
from kaa.log.sim_files import SimFiles
from kaa.replication.isr_changes import IsrChanges
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.broker.support import DATA, config, formatted, node
from tests.unit.log.batches import batch

if TYPE_CHECKING:
    from kaa.config.server import BrokerConfig


async def create_topic(broker: Broker, name: str, partitions: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    response = await broker.services.controller.submit(request, ControllerRequestContext(7))
    assert [result.error_code for result in response.topics] == [Errors.NONE]


def partition(broker: Broker, topic: str) -> Partition:
    found = broker.services.replicas.find(topic, 0)
    assert isinstance(found, Partition)
    return found


def only(group: BaseException) -> BaseException:
    """What a task group wraps."""
    while isinstance(group, BaseExceptionGroup):
        (group,) = group.exceptions
    return group


def refusal(settings: BrokerConfig, files: SimFiles) -> str:
    async def main() -> None:
        async with running(node(settings, files)):
            pytest.fail("the node started")

    with pytest.raises(BaseExceptionGroup) as failure:
        asyncio.run(main())
    error = only(failure.value)
    assert isinstance(error, StartError)
    return str(error)


def test_logs_have_the_settings_of_their_topics_after_a_restart() -> None:
    files = formatted(config())

    async def first() -> None:
        async with running(node(config(), files)) as broker:
            await create_topic(broker, "t")
            change = AlterableConfig(name="retention.ms", config_operation=0, value="1234")
            resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
            request = IncrementalAlterConfigsRequest(resources=[resource])
            context = ControllerRequestContext(1)
            await broker.services.controller.submit(request, context)

    async def second() -> None:
        async with running(node(config(), files)) as broker:
            log = partition(broker, "t").log
            assert log is not None
            assert log.config.retention_ms == 1234

    asyncio.run(first())
    asyncio.run(second())


def test_node_serves_what_was_written_before_a_clean_stop() -> None:
    settings = config()
    files = formatted(settings)

    async def first() -> str:
        async with running(node(settings, files)) as broker:
            await create_topic(broker, "t")
            partition(broker, "t").append(batch(3), now_ms=0)
            return broker.cluster_id

    async def second() -> str:
        async with running(node(settings, files)) as broker:
            found = partition(broker, "t")
            assert found.is_leader
            assert found.online_log().log_end_offset == 3
            assert found.online_log().high_watermark >= 3
            return broker.cluster_id

    cluster_id = asyncio.run(first())
    assert b"brokerEpoch" in read_whole(files, f"{DATA}/.kafka_cleanshutdown")
    assert asyncio.run(second()) == cluster_id
    assert files.open_handles == 0


def noted(
    monkeypatch: pytest.MonkeyPatch, place: object, name: str, label: str, steps: list[str]
) -> None:
    """Has every call of a function note itself, and the listeners that it is about."""
    whole = getattr(place, name)

    def call(*arguments: Any, **named: Any) -> Any:
        endpoints = [one for one in arguments[1:2] if isinstance(one, tuple)]
        steps.append(" ".join([label, *(one.listener for found in endpoints for one in found)]))
        return whole(*arguments, **named)

    monkeypatch.setattr(place, name, call)


def test_a_node_starts_and_stops_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could be elected before controllers accept; clients come when the broker is unfenced.
    Leaderships move while it still serves, and the quorum outlives the logs.
    """
    settings = config()
    files, steps = formatted(settings), list[str]()
    for place, name, label in (
        (BoundListeners, "bind", "bind"),
        (BoundListeners, "start", "accept"),
        (BoundListeners, "drain", "drain"),
        (NodeMetadata, "open", "recover the metadata log"),
        (NodeMetadata, "start", "join the quorum"),
        (NodeMetadata, "stop", "leave the quorum"),
        (BrokerLifecycle, "registered", "register"),
        (BrokerLifecycle, "unfenced", "unfence"),
        (BrokerLifecycle, "leave", "leave the cluster"),
        (LogManager, "lock", "lock"),
        (LogManager, "start", "load logs"),
        (LogManager, "release_locks", "release the locks"),
        (node_module, "close_logs", "close logs"),
    ):
        noted(monkeypatch, place, name, label, steps)

    async def main() -> None:
        async with running(node(settings, files)):
            steps.append("serve")

    asyncio.run(main())
    assert steps == [
        "bind",
        "lock",
        "recover the metadata log",
        "accept CONTROLLER",
        "join the quorum",
        "register",
        "load logs",
        "unfence",
        "accept PLAINTEXT",
        "serve",
        "leave the cluster",
        "drain PLAINTEXT",
        "close logs",
        "leave the quorum",
        "drain CONTROLLER",
        "release the locks",
    ]


def test_a_directory_of_the_metadata_log_alone_is_locked() -> None:
    settings = config("metadata.log.dir=/m")
    files = formatted(settings)

    async def main() -> None:
        async with running(node(settings, files)):
            assert files.locked == {"/m/.lock", f"{DATA}/.lock"}

    asyncio.run(main())
    assert not files.locked
    files.lock("/m/.lock")
    assert refusal(settings, files) == (
        "/m is in use by another process; stop that one, or name another directory in "
        "metadata.log.dir"
    )
    assert files.locked == {"/m/.lock"}


def test_node_that_was_killed_recovers_and_reports_its_partitions() -> None:
    settings = config()
    files = formatted(settings)

    found_by_next: list[SimFiles] = []

    async def first() -> None:
        async with running(node(settings, files)) as broker:
            await create_topic(broker, "t")
            partition(broker, "t").append(batch(3), now_ms=0)
            found_by_next.append(files.restart("kill"))

    async def second() -> None:
        async with running(node(settings, found_by_next[0])) as broker:
            found = partition(broker, "t")
            assert found.online_log().log_end_offset == 3
            async with asyncio.timeout(10):
                while found.image.leader_recovery_state:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    with pytest.raises(BaseExceptionGroup):
        asyncio.run(first())
    asyncio.run(second())


def test_an_unfenced_broker_accepts_whatever_the_controller_leaves_unanswered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its in-sync replicas and the registration of its controller: others send clients here."""

    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(IsrChanges, "send_next", never)
    monkeypatch.setattr(ControllerRegistration, "_register", never)

    async def main() -> None:
        async with asyncio.timeout(10), running(node(config())) as broker:
            host, _, port = broker.bootstrap_servers.partition(":")
            connection = await Connection.open(host, int(port), ConnectionSettings())
            connection.close()

    asyncio.run(main())


def test_start_is_interrupted_while_logs_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that would take; the next start finds everything."""
    settings = config()
    files = formatted(settings)
    load = LogManager.start

    async def fill() -> None:
        async with running(node(settings, files)) as broker:
            await create_topic(broker, "t")
            partition(broker, "t").append(batch(3), now_ms=0)

    async def interrupted() -> None:
        broker, loop = node(settings, files), asyncio.get_running_loop()

        def endlessly(self: LogManager, *arguments: Any) -> Iterator[object]:
            yield from load(self, *arguments)
            loop.call_soon_threadsafe(broker.interrupt_start)
            while True:
                yield None

        with monkeypatch.context() as patch:
            patch.setattr(LogManager, "start", endlessly)
            with pytest.raises(asyncio.CancelledError):
                async with running(broker):
                    pytest.fail("the node started")

    async def again() -> None:
        async with running(node(settings, files)) as broker:
            assert partition(broker, "t").online_log().log_end_offset == 3

    asyncio.run(fill())
    asyncio.run(interrupted())
    asyncio.run(again())


def test_settings_change_while_the_node_runs() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            change = AlterableConfig(name="log.retention.ms", config_operation=0, value="12345")
            resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
            request = IncrementalAlterConfigsRequest(resources=[resource])
            await broker.services.controller.submit(request, ControllerRequestContext(1))
            assert topic_default(broker.services.config, "retention.ms") == 12345

    asyncio.run(main())


def test_unformatted_directory_is_refused_with_the_command() -> None:
    assert "kaa storage format" in refusal(config(), SimFiles())


def test_directory_of_another_node_is_refused() -> None:
    files = formatted(config())
    assert "node.id" in refusal(config("node.id=7"), files)


def test_directory_in_use_is_refused() -> None:
    settings = config()
    files = formatted(settings)

    async def main() -> None:
        async with running(node(settings, files)):
            with pytest.raises(BaseExceptionGroup) as failure:
                async with running(node(settings, files)):
                    pytest.fail("two nodes on one directory")
            assert "in use" in str(only(failure.value))

    asyncio.run(main())


def test_port_in_use_is_refused_before_anything_is_written() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            port = broker.bootstrap_servers.rpartition(":")[2]
            listener = f"listeners=PLAINTEXT://127.0.0.1:{port}"
            settings = config(listener)
            files = formatted(settings)
            before = len(files.history)
            with pytest.raises(BaseExceptionGroup) as failure:
                async with running(node(settings, files)):
                    pytest.fail("two nodes on one port")
            assert "set listeners" in str(only(failure.value))
            assert len(files.history) == before

    asyncio.run(main())


def test_group_commit_answers_only_what_is_on_stable_storage() -> None:
    async def main() -> None:
        async with running(node(config("kaa.log.group.commit.enable=true"))) as broker:
            await create_topic(broker, "t")
            found = partition(broker, "t")
            done = asyncio.Event()
            found.wait(done.set)
            found.append(batch(1), now_ms=0)
            assert found.online_log().high_watermark < 1
            await asyncio.wait_for(done.wait(), 60)
            assert found.online_log().high_watermark >= 1

    asyncio.run(main())
