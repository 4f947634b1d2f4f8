"""A metadata replica with the tasks that it runs in, on a simulated disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

from kaa.controller.framing import decode_record
from kaa.controller.image import ClusterImage, Delta
from kaa.controller.port import ControllerRequestContext
from kaa.controller.refusals import error_response
from kaa.controller.replica import MetadataReplica
from kaa.controller.result import ControllerError
from kaa.log.dirs import LogDirectory
from kaa.log.sim_files import SimFiles
from kaa.model.nodes import Endpoint
from kaa.model.pieces import finish
from kaa.quorum import QuorumConfig, ReplicaKey, VoterNode, VoterSet
from kaa.quorum.node import QuorumNode
from kaa.records.record import iter_records
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreateTopicsRequest
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from kaa.wire.schema import MetadataRecord, Request
from tests.unit.controller.cluster import CLUSTER_ID, NODE_ID, Cluster, broker_config, topic
from tests.unit.quorum.disk_replica import ROOT, FixedClock, InlineExecutor, directory_id

Answer = TypeVar("Answer")

ENDPOINT = Endpoint("CONTROLLER", "127.0.0.1", 9093)
STATIC = VoterSet.of([VoterNode(ReplicaKey(NODE_ID), (ENDPOINT,))])


class Node:
    """A replica that votes alone, and what it published."""

    def __init__(
        self,
        files: SimFiles,
        *,
        executor: Executor | None = None,
        voters: VoterSet = STATIC,
        report: Callable[[str], None] = lambda _: None,
        **settings: str,
    ) -> None:
        self.files = files
        self.published: list[Delta] = []
        self.clock = FixedClock()
        self.replica = MetadataReplica(
            config=broker_config(**settings),
            node=QuorumNode(
                CLUSTER_ID,
                NODE_ID,
                directory_id(NODE_ID),
                "CONTROLLER",
                (ENDPOINT,),
                voters,
                QuorumConfig(),
            ),
            directory=LogDirectory(files, ROOT),
            executor=executor or InlineExecutor(),
            clock=self.clock,
            random=Random(7),
            report=report,
        )
        self.replica.subscribe("the test", self._on_image)
        self._started = asyncio.Event()
        # Ends with the replica, and with its error.
        self.life: asyncio.Task[None] | None = None

    def _on_image(self, image: ClusterImage, delta: Delta) -> None:
        assert image is self.replica.image
        self.published.append(delta)

    async def start(self) -> None:
        """Returns when the node's controller is active and published what is there."""
        self.life = asyncio.ensure_future(self._live())  # noqa: TID251
        started = asyncio.ensure_future(self._started.wait())  # noqa: TID251
        await asyncio.wait([self.life, started], return_when=asyncio.FIRST_COMPLETED)
        if self.life.done():
            await self.life
        while self.replica.active is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.wait([self.replica.active.activated])

    async def _live(self) -> None:
        await self.replica.open()
        async with asyncio.TaskGroup() as tasks:
            self.replica.start(tasks)
            self._started.set()

    async def submit(self, request: Request[Answer], version: int) -> Answer:
        """The answer as a client would read it."""
        try:
            return await self.replica.submit(request, ControllerRequestContext(version))
        except ControllerError as refusal:
            return finish(error_response(request, version, refusal.error, refusal.message))

    async def register(self) -> int:
        response = await self.submit(Cluster(0).registration(NODE_ID), 4)
        assert response.error_code == Errors.NONE
        beat = BrokerHeartbeatRequest(
            broker_id=NODE_ID,
            broker_epoch=response.broker_epoch,
            current_metadata_offset=self.replica.published_offset,
        )
        assert not (await self.submit(beat, 1)).is_fenced
        return response.broker_epoch

    async def create(self, *names: str, **facts: Any) -> list[Errors]:
        request = CreateTopicsRequest(topics=[topic(name, **facts) for name in names])
        response = await self.submit(request, 7)
        return [Errors.of(each.error_code) for each in response.topics]

    def records(self) -> list[MetadataRecord]:
        """Every record of the log but control records."""
        log = self.replica.driver.log
        return [
            decode_record(record.value or b"")[0]
            for batch in log.batches(log.start_offset(), log.end().offset)
            if not batch.is_control
            for record in iter_records(batch)
        ]


@asynccontextmanager
async def running(files: SimFiles, **options: Any) -> AsyncIterator[Node]:
    node = Node(files, **options)
    async with asyncio.timeout(60):
        await node.start()
        yield node
        await node.replica.stop()


async def started(files: SimFiles, **options: Any) -> Node:
    """A node that will not stop by itself; for disks that are taken away from it."""
    node = Node(files, **options)
    await node.start()
    return node


def image_of(image: ClusterImage) -> dict[str, object]:
    """Everything an image holds, to compare."""
    facts = {name: value for name, value in vars(image).items() if not name.startswith("_")}
    facts["topics"] = {name: (found.id, found.partitions) for name, found in image.topics.items()}
    del facts["topics_by_id"]
    return facts
