"""Some brokers in one process: real controller machine, logs, leaders, followers and handlers.

What a broker sends to another passes through the codecs both ways, but no socket. Metadata reaches
every running broker at once. A broker can be cut off, killed and started again on its files.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from kaa.broker.services import make_services
from kaa.broker.topic_configs import log_config
from kaa.controller.image import ClusterImage
from kaa.controller.result import ControllerError, ControllerResult
from kaa.handlers.context import RequestContext, response_of
from kaa.handlers.registry import BROKER_APIS, find_handlers
from kaa.log.config import LogManagerConfig
from kaa.log.manager import LogManager
from kaa.log.segment import SegmentRegion
from kaa.log.sim_files import SimFiles
from kaa.model.errands import Errands
from kaa.model.kinds import ResourceType
from kaa.model.nodes import HostPort
from kaa.replication.directory_assignments import DirectoryAssignments
from kaa.replication.follower.fetcher import FetcherSettings
from kaa.replication.follower.fetchers import ReplicaFetchers
from kaa.replication.follower.link import RemoteLeader, ReplicaFetchBounds
from kaa.replication.isr_changes import IsrChanges
from kaa.replication.manager import ReplicaManager
from kaa.replication.partition import Partition
from kaa.serving.producer_ids import ProducerIds
from kaa.serving.services import NodeServices
from kaa.serving.view import NodeView
from kaa.wire.frames import RequestFrame
from kaa.wire.messages.k56_alter_partition import AlterPartitionResponse
from kaa.wire.registry import api
from tests.unit.controller.cluster import Cluster, broker_config, uuid
from tests.unit.controller.cluster import directory as directory_id
from tests.unit.log.batches import batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaa.client.peer import Peer
    from kaa.controller.port import ControllerPort, ControllerRequestContext
    from kaa.log.config import LogConfig
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord, Request

LAG_MS = 30_000
BACKOFF_MS = 20


class TestClock:
    """Real time, to which a test may add."""

    __test__ = False

    def __init__(self) -> None:
        self.skipped_ms = 0

    def wall_ms(self) -> int:
        return 1_000_000 + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000) + self.skipped_ms


class TestBroker:
    """One broker; `start` makes a new life of it on the same files."""

    __test__ = False

    def __init__(self, cluster: Brokers, broker_id: int) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.files = SimFiles()
        self.is_running = False
        # Those whose requests to this broker fail.
        self.cut_off: set[int] = set()
        self.reports: list[str] = []
        self.image = ClusterImage()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        cluster = self.cluster
        self.image = ClusterImage()
        loop = asyncio.get_running_loop()
        errands = Errands(tasks.create_task, self.reports.append)
        view = NodeView(self.id, "", loop, cluster.clock, errands, cluster.config, self.image)
        self.logs = LogManager(
            self.files,
            ("/data",),
            LogManagerConfig(),
            Random(1),
            self.topic_config,
            lambda _: self.manager.directory_failed(),
        )
        for _ in self.logs.start(cluster.clock.wall_ms()):
            pass
        (directory,) = self.logs.directories
        directory.directory_id = directory_id(self.id, 0)
        directory.writer = cluster.executor
        self.assignments = DirectoryAssignments()
        controller = cast("ControllerPort", self)
        self.changes = IsrChanges(self.id, self.epoch, controller, self.reports.append)
        self.manager = ReplicaManager(
            self.id,
            self.logs,
            self.topic_config,
            cluster.clock.wall_ms,
            monotonic_ms=cluster.clock.monotonic_ms,
            lag_ms_max=lambda: LAG_MS,
            broker_epoch=self.epoch,
            propose=self.changes.propose,
            assigned=self.note_directory,
        )
        self.fetchers = self.manager.followers = ReplicaFetchers(
            self.connect,
            lambda: FetcherSettings(ReplicaFetchBounds(100, 1, 10 << 20), BACKOFF_MS, 1 << 20),
            lambda: 1,
            cluster.clock,
            self.reports.append,
            throttle=self.manager,
        )
        node = NodeServices(
            view=view,
            controller=controller,
            # Metadata comes from the cluster, by `publish`.
            metadata=cast("Any", None),
            logs=self.logs,
            batch_work=cluster.executor,
            api_versions={},
        )
        self.services = make_services(
            node,
            self.manager,
            ProducerIds(controller, self.id, self.epoch),
            cluster.executor,
            Random(self.id),
        )
        for record in cluster.controller.image.records():
            self.image.replay(record)
        self.image.take_delta()
        for _ in self.manager.start(self.image):
            pass
        self.is_running = True
        self._duties = [
            tasks.create_task(self.changes.run()),
            tasks.create_task(self.fetchers.run()),
        ]

    def kill(self) -> None:
        """Nothing more is written; what was written stays."""
        self._end()
        self.logs.abandon()

    def stop(self) -> None:
        """A clean stop; the controller hears nothing of it."""
        self._end()
        for _ in self.logs.shutdown(self.cluster.clock.wall_ms(), self.epoch()):
            pass

    def _end(self) -> None:
        self.is_running = False
        self.services.polls.end()
        for duty in self._duties:
            duty.cancel()

    def topic_config(self, topic: str) -> LogConfig:
        overrides = self.image.configs.get((ResourceType.TOPIC, topic), {})
        return log_config(self.cluster.config, overrides)

    def epoch(self) -> int:
        return self.cluster.controller.epochs[self.id]

    def publish(self, records: list[MetadataRecord]) -> None:
        for record in records:
            self.image.replay(record)
        self.manager.apply(self.image, self.image.take_delta())

    def partition(self, topic: str = "t", number: int = 0) -> Partition:
        found = self.manager.find(topic, number)
        assert isinstance(found, Partition), found
        return found

    def note_directory(self, topic_id: Uuid, number: int, directory: Uuid | None) -> None:
        if directory is None:
            self.assignments.forget(topic_id, number)
        else:
            self.assignments.note(topic_id, number, directory)

    def report_directories(self) -> None:
        """Tells the controller what it does not know yet of directories."""
        request = self.assignments.next_request(self.id, self.epoch(), now_ms=0)
        assert request is not None
        self.assignments.answered(self.cluster.send(request), now_ms=0)

    # --- as the controller's port

    async def submit(
        self, request: Request, context: ControllerRequestContext
    ) -> AlterPartitionResponse:
        await asyncio.sleep(0)
        if self.id in self.cluster.without_controller:
            raise ConnectionError("cut off from the controller")
        try:
            answer: AlterPartitionResponse = self.cluster.send(request, context.api_version)
        except ControllerError as refused:
            return AlterPartitionResponse(error_code=refused.error, topics=[])
        return answer

    # --- as followers' leader

    def connect(self, leader_id: int, _number: int) -> LocalLeader:
        return LocalLeader(self, self.cluster.brokers[leader_id])

    async def ask(self, sender: int, request: Request, version: int) -> Any:
        """Serves a request of another broker as it would come over a connection."""
        asked = api(request.api_key)
        await asyncio.sleep(0)
        self.check(sender)
        received = asked.request.decode(bytearray(request.encode(version)), version)
        connection = SimpleNamespace(listener_name="PLAINTEXT", facts={}, peer="127.0.0.1")
        header = RequestFrame(asked.key, version, 7, "broker", 0)
        context = RequestContext(header, cast("Any", connection))
        answer = await response_of(_SERVED[asked.key].handle(self.services, received, context))
        assert answer is not None
        frame = _sent(answer.codec(version).encode_parts(answer))
        self.check(sender)
        return asked.response.decode(self.cluster.on_the_way(frame), version)

    def check(self, sender: int) -> None:
        if not self.is_running or sender in self.cut_off:
            raise ConnectionError(f"broker {self.id} does not answer {sender}")


class LocalLeader(RemoteLeader):
    """The real link, over a connection that is a call."""

    def __init__(self, follower: TestBroker, leader: TestBroker) -> None:
        address = HostPort("host", 1)
        super().__init__(follower.id, follower.epoch, lambda: address, lambda _: cast("Peer", self))
        self._follower = follower
        self._leader = leader

    @property
    def address(self) -> HostPort:
        return HostPort("host", 1)

    def close(self) -> None:
        """There is no connection."""

    async def request(self, request: Request) -> Any:
        version = type(request).valid_versions.high
        return await self._leader.ask(self._follower.id, request, version)


class Brokers:
    """Brokers 0, 1, ... and their controller."""

    def __init__(self, count: int, **settings: Any) -> None:
        self.controller = Cluster(count, **settings)
        self.config = broker_config(**settings)
        self.clock = TestClock()
        self.executor = ThreadPoolExecutor(1)
        # Brokers that do not reach the controller.
        self.without_controller: set[int] = set()
        # May damage what is on the way from a leader.
        self.on_the_way: Callable[[bytes], bytes] = bytes
        self.brokers = [TestBroker(self, number) for number in range(count)]
        write = self.controller._write

        def write_and_publish(result: ControllerResult[Any]) -> None:
            write(result)
            for broker in self.brokers:
                if broker.is_running:
                    broker.publish(self.controller.written)

        self.controller._write = write_and_publish  # type: ignore[method-assign]

    def __getitem__(self, number: int) -> TestBroker:
        return self.brokers[number]

    def send(self, request: Request, version: int | None = None) -> Any:
        return self.controller.send(request, version)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.TaskGroup]:
        async with asyncio.TaskGroup() as tasks:
            for broker in self.brokers:
                broker.start(tasks)
            yield tasks
            for broker in self.brokers:
                if broker.is_running:
                    broker.kill()
        self.executor.shutdown()

    def lead(self, number: int, topic: str = "t") -> TestBroker:
        """The broker that leads the partition."""
        image = self.controller.image.topics[topic].partitions[number]
        return self.brokers[image.leader]

    def fail(self, broker_id: int) -> None:
        """Kills a broker, and the controller notices."""
        self.brokers[broker_id].kill()
        self.controller.fence(broker_id)

    def restart(self, broker_id: int, tasks: asyncio.TaskGroup, previous_epoch: int = -1) -> None:
        """A new life of a broker, registered and unfenced. A killed one has no previous epoch."""
        # The session of the former life is over.
        self.controller.now_ms += 60_000
        self.controller.register(
            broker_id,
            incarnation_id=_incarnation(self, broker_id),
            previous_broker_epoch=previous_epoch,
        )
        self.brokers[broker_id].start(tasks)
        self.controller.heartbeat(broker_id)

    def produce(
        self,
        count: int | list[tuple[bytes | None, bytes | None]] = 1,
        number: int = 0,
        *,
        topic: str = "t",
        **fields: Any,
    ) -> tuple[Partition, int]:
        """Appends to the leader; the partition and the end after the append."""
        partition = self.lead(number, topic).partition(topic, number)
        info = partition.append(batch(count, **fields), now_ms=self.clock.wall_ms())
        return partition, info.last_offset + 1


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Waits for what is bound to happen."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  The condition may be about several brokers.
            await asyncio.sleep(0.001)


def is_replicated(partition: Partition, offset: int) -> bool:
    """Whether every record below the offset can be read."""
    return partition.online_log().high_watermark >= offset


def _incarnation(brokers: Brokers, broker_id: int) -> Any:
    return uuid(50_000 + brokers.controller.next_offset * 10 + broker_id)


def _sent(parts: Any) -> bytes:
    sent = bytearray()
    for part in parts:
        if isinstance(part, SegmentRegion):
            sent += part.read()
            part.release()
        else:
            sent += part
    return bytes(sent)


_SERVED = find_handlers(BROKER_APIS)
