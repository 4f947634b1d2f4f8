"""A node without sockets: real controller, logs and replicas over files in memory.

`Node` answers requests by the handler that its listener has for them, through the codec of the
version both ways, so that a response which cannot be written in a version fails the test.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from kaa.broker.assembly import make_logs, make_moves, make_quorum_node
from kaa.broker.lifecycle.driver import BrokerIdentity, BrokerLifecycle
from kaa.broker.services import make_services
from kaa.broker.topic_configs import log_config
from kaa.client.connection import ConnectionSettings
from kaa.client.peer import Peers
from kaa.config.dynamic import apply_dynamic
from kaa.config.server import load_broker_config
from kaa.config.sources import merge_settings
from kaa.controller.channel import ControllerChannel
from kaa.controller.replica import MetadataReplica
from kaa.handlers.context import RequestContext, response_of
from kaa.handlers.registry import BROKER_APIS, CONTROLLER_APIS, find_handlers
from kaa.log.dirs import LogDirectory
from kaa.log.segment import SegmentRegion
from kaa.log.sim_files import CrashError, SimFiles
from kaa.model.errands import Errands
from kaa.model.nodes import Endpoint, SecurityProtocol
from kaa.replication.manager import ReplicaManager
from kaa.replication.partition import Partition
from kaa.serving.producer_ids import ProducerIds
from kaa.serving.services import NodeServices
from kaa.serving.view import NodeView
from kaa.wire.errors import Errors
from kaa.wire.frames import RequestFrame, decode_response, encode_response
from kaa.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kaa.wire.primitives import Uuid
from kaa.wire.registry import api
from kaa.wire.schema import Response
from tests.support.ids import uuid
from tests.unit.log.batches import batch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from kaa.controller.image import ClusterImage, Delta
    from kaa.log.config import LogConfig
    from kaa.net.connection import Connection
    from kaa.serving.services import Services
    from kaa.wire.schema import MetadataRecord, Request

NODE_ID = 1
CLUSTER_ID = "handlers-of-a-node-AAA"
DIRECTORIES = ("/data/one", "/data/two")
METADATA_DIRECTORY = "/data/metadata"
NOW_MS = 1_700_000_000_000
SETTINGS = (
    "process.roles=broker,controller",
    f"node.id={NODE_ID}",
    f"controller.quorum.voters={NODE_ID}@127.0.0.1:9093",
    "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names=CONTROLLER",
    f"log.dirs={','.join(DIRECTORIES)}",
    "offsets.topic.num.partitions=3",
    "offsets.topic.replication.factor=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
)

Answer = TypeVar("Answer", bound=Response)


class _Clock:
    def wall_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0


class _Connection:
    """What handlers see of a connection."""

    def __init__(self, listener_name: str) -> None:
        self.listener_name = listener_name
        self.peer = "127.0.0.1"
        self.facts: dict[str, Any] = {}
        self._when_closed: list[Callable[[], None]] = []

    def when_closed(self, callback: Callable[[], None]) -> None:
        self._when_closed.append(callback)

    def close(self) -> None:
        for callback in self._when_closed:
            callback()


def _sent(parts: Iterable[Any]) -> bytes:
    """What a connection sends: regions of files are read and given back."""
    sent = bytearray()
    for part in parts:
        if isinstance(part, SegmentRegion):
            sent += part.read()
            part.release()
        else:
            sent += part
    return bytes(sent)


class Node:
    """See the module's text. Use it as a context."""

    def __init__(self, *settings: str, files: SimFiles | None = None) -> None:
        """With the files of another node it goes on where that one ended."""
        self._is_new = files is None
        self._is_abandoned = False
        self.files = files or SimFiles()
        self.services: Services
        self.config = load_broker_config(merge_settings(overrides=[*SETTINGS, *settings])).config
        self._runner = asyncio.Runner()
        self._executor = ThreadPoolExecutor(1)
        # What was begun and failed, which nobody waits for.
        self.errand_failures: list[str] = []
        # The connection of the last request, to see what a handler did to it.
        self.connection = _Connection("PLAINTEXT")

    def __enter__(self) -> Self:
        self.run(self._start())
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_abandoned:
            return
        self._markers.cancel()
        self.run(self._controller.stop())
        self._executor.shutdown()
        self._runner.close()

    def abandon(self) -> SimFiles:
        """The process was killed: nothing is closed or written any more. The files as the next one
        finds them.
        """
        self._is_abandoned = True
        files = self.files.restart("kill")
        loop = self._runner.get_loop()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.set_exception_handler(lambda *_: None)
        self._executor.shutdown()
        with suppress(CrashError):
            self._runner.close()
        return files

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    async def _start(self) -> None:
        random, loop = Random(1), asyncio.get_running_loop()
        self._view = NodeView(
            NODE_ID,
            CLUSTER_ID,
            loop,
            _Clock(),
            Errands(loop.create_task, self.errand_failures.append),
            self.config,
        )
        if self._is_new:
            self.files.make_directory(METADATA_DIRECTORY)
        logs = make_logs(self.config, self.files, random, self._topic_config, self._offline)
        logs.lock()
        for number, directory in enumerate(logs.directories):
            directory.directory_id = uuid(1_000 + number)
        for _ in logs.start(NOW_MS):
            pass
        replicas = ReplicaManager(
            NODE_ID,
            logs,
            self._topic_config,
            lambda: NOW_MS,
            leadership_changed=self._leadership_changed,
        )
        replicas.moves = make_moves(
            self._view, logs, replicas, self._executor, lambda *_: None, lambda _: None
        )
        self._controller = self._make_metadata(random)
        self._controller.subscribe("the node", self._image_changed)
        channel = ControllerChannel(
            self._controller,
            Peers(ConnectionSettings(), random),
            random,
            node_id=NODE_ID,
            timeout_ms=5_000,
        )
        node = NodeServices(
            view=self._view,
            controller=channel,
            metadata=self._controller,
            logs=logs,
            batch_work=self._executor,
            api_versions={"PLAINTEXT": [], "CONTROLLER": []},
        )
        producer_ids = ProducerIds(channel, NODE_ID, lambda: self.lifecycle.epoch)
        self.services = make_services(node, replicas, producer_ids, self._executor, random)
        self._markers = loop.create_task(self.services.transactions.markers.run())
        await self._join(channel, [each.directory_id for each in logs.directories], random)

    def _make_metadata(self, random: Random) -> MetadataReplica:
        endpoints = (Endpoint("CONTROLLER", "127.0.0.1", 9093),)
        return MetadataReplica(
            config=self.config,
            node=make_quorum_node(self.config, CLUSTER_ID, uuid(999), endpoints),
            directory=LogDirectory(self.files, METADATA_DIRECTORY),
            executor=self._executor,
            clock=_Clock(),
            random=random,
        )

    async def _join(
        self, channel: ControllerChannel, directories: list[Uuid | None], random: Random
    ) -> None:
        await self._controller.open()
        advertised = [Endpoint("PLAINTEXT", "127.0.0.1", 9092, SecurityProtocol.PLAINTEXT)]
        ids = [directory for directory in directories if directory is not None]
        self.lifecycle = BrokerLifecycle(
            self.config,
            channel,
            BrokerIdentity(CLUSTER_ID, Uuid(b"incarnation-id-1"), advertised, ids, -1),
            random,
            published_offset=lambda: self._controller.published_offset,
            offline_directories=list,
        )
        self._life = self._view.loop.create_task(self._live())
        epoch = await self.lifecycle.registered()
        await self._controller.published(epoch)
        if not self._is_new:
            for _ in self.services.replicas.start(self._view.image):
                pass
        await self.lifecycle.unfenced()

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._controller.start(tasks)
            tasks.create_task(self.lifecycle.run())

    def _topic_config(self, topic: str) -> LogConfig:
        return log_config(self._view.config, self._view.image.configs.get((2, topic), {}))

    def _leadership_changed(self, partition: Partition) -> None:
        self.services.groups.runtime.leadership_changed(partition)
        self.services.transactions.runtime.leadership_changed(partition)
        self.services.shares.leadership_changed(partition)
        self.services.share_partitions.leadership_changed(partition)

    def _offline(self, _: object) -> None:
        self.services.replicas.directory_failed()

    def _image_changed(self, image: ClusterImage, delta: Delta) -> None:
        self._view.image = image
        self._view.image_offset = self._controller.committed_offset
        layers = (image.configs.get((4, name), {}) for name in ("", str(NODE_ID)))
        self._view.config = apply_dynamic(self.config, *layers)
        self.services.groups.topics.update(image, delta, self._view.image_offset)
        self.services.replicas.apply(image, delta)

    # --- what tests do

    def ask(
        self, request: Request, version: int | None = None, *, listener: str = "PLAINTEXT"
    ) -> Any:
        """The response as the client reads it; the newest version by default."""
        return self.run(self.asked(request, version, listener=listener))

    async def asked(
        self, request: Request, version: int | None = None, *, listener: str = "PLAINTEXT"
    ) -> Any:
        asked = api(request.api_key)
        version = asked.served_versions().high if version is None else version
        # A connection's buffer can be written to, and appends patch records where they lie.
        received = asked.request.decode(bytearray(request.encode(version)), version)
        header = RequestFrame(asked.key, version, 7, "client", 0)
        self.connection = _Connection(listener)
        context = RequestContext(header, cast("Connection", self.connection))
        served = find_handlers(CONTROLLER_APIS if listener == "CONTROLLER" else BROKER_APIS)
        response = await response_of(served[asked.key].handle(self.services, received, context))
        if response is None:
            return None
        parts = encode_response(response, version, header.correlation_id)
        return decode_response(_sent(parts)[4:], asked, version)[1]

    def load_coordinators(self) -> None:
        """Loads what this node coordinates."""
        self.create_offsets_topic()
        self.run(self._load_coordinators())

    async def _load_coordinators(self) -> None:
        for shard in tuple(self.services.groups.runtime):
            await shard.load()

    def load_transactions(self) -> None:
        """Loads the transactions, and what groups commit within them."""
        self.load_coordinators()
        if "__transaction_state" not in self.services.image.topics:
            self.create_topic("__transaction_state", 3, cleanup_policy="compact")
        self.run(self._load_transactions())

    async def _load_transactions(self) -> None:
        for shard in tuple(self.services.transactions.runtime):
            await shard.load()

    async def markers_written(self) -> None:
        """Lets everything happen that follows from what was decided."""
        for _ in range(50):
            await asyncio.sleep(0)

    def wait_for_markers(self) -> None:
        self.run(self.markers_written())

    def create_offsets_topic(self) -> None:
        """Makes sure that it exists; nothing is loaded."""
        if "__consumer_offsets" not in self.services.image.topics:
            self.create_topic("__consumer_offsets", 3, cleanup_policy="compact")

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """A topic; settings are Kafka's, with _ for each dot."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    assignments=[],
                    configs=[
                        CreatableTopicConfig(name=key.replace("_", "."), value=value)
                        for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=60_000,
        )
        (topic,) = self.ask(request).topics
        assert topic.error_code == Errors.NONE, topic.error_message

    def partition(self, topic: str, number: int = 0) -> Partition:
        found = self.services.replicas.find(topic, number)
        assert isinstance(found, Partition)
        return found

    def append(self, topic: str, records: int, number: int = 0, **fields: Any) -> None:
        self.partition(topic, number).append(batch(records, **fields), now_ms=NOW_MS)

    async def snapshot(self) -> None:
        """Makes the controller write a snapshot of the metadata."""
        assert self._controller._snapshotter is not None
        await self._controller._snapshotter.take()

    def replay(self, *records: MetadataRecord) -> None:
        """Changes what this node believes of the cluster, past the controller."""
        image = self.services.image
        for record in records:
            image.replay(record)
        self._image_changed(image, image.take_delta())
