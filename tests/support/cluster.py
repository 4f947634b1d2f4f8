"""Several nodes as one cluster in this process, on one loop, with their disks in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kaa.broker.node import Broker
from kaa.config.server import BrokerConfig, load_broker_config
from kaa.config.sources import merge_settings
from kaa.controller.formatting import FormatRequest, plan_format
from kaa.log.sim_files import SimFiles
from kaa.model.nodes import Endpoint
from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from kaa.wire.primitives import Uuid
from tests.support.ids import uuid
from tests.support.ports import LOOPBACK, free_port

CLUSTER_ID = "three-nodes-one-loop-A"
BOTH = "broker,controller"
SETTINGS = (
    "controller.listener.names=CONTROLLER",
    "controller.quorum.election.timeout.ms=300",
    "controller.quorum.fetch.timeout.ms=2000",
    "controller.quorum.request.timeout.ms=2000",
    "broker.heartbeat.interval.ms=100",
    "broker.session.timeout.ms=6000",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
)


class Cluster:
    """Nodes by id. `start` them together: one alone has no majority to wait for."""

    def __init__(
        self,
        roles: dict[int, str],
        *settings: str,
        others: dict[int, int] | None = None,
        first_voters: tuple[int, ...] | None = None,
    ) -> None:
        """`others` are voters that are not ours, by id, with the ports of their controllers. With
        `first_voters` the log says who votes, and these are the first.
        """
        self._first_voters = first_voters
        self._roles = roles
        self._settings = settings
        # What a node is started with beside that, from its next start on.
        self.own_settings: dict[int, tuple[str, ...]] = {}
        ports = {node_id: free_port() for node_id in roles}
        voters = {node_id: ports[node_id] for node_id in roles if "controller" in roles[node_id]}
        self.voters = ",".join(
            f"{node_id}@{LOOPBACK}:{port}" for node_id, port in (voters | (others or {})).items()
        )
        self._ports = ports
        self.files = {node_id: SimFiles() for node_id in roles}
        self.nodes: dict[int, Broker] = {}
        self.reports: dict[int, list[str]] = {node_id: [] for node_id in roles}
        self._lives: dict[int, tuple[asyncio.Task[None], asyncio.Event]] = {}
        for node_id in roles:
            self.format(node_id)

    def config(self, node_id: int) -> BrokerConfig:
        roles = self._roles[node_id]
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://{LOOPBACK}:0")
        if "controller" in roles:
            listeners.append(f"CONTROLLER://{LOOPBACK}:{self._ports[node_id]}")
        overrides = [
            f"process.roles={roles}",
            f"node.id={node_id}",
            f"listeners={','.join(listeners)}",
            self._quorum_setting(),
            f"log.dirs=/data/{node_id}",
            *SETTINGS,
            *self._settings,
            *self.own_settings.get(node_id, ()),
        ]
        return load_broker_config(merge_settings(overrides=overrides)).config

    def _quorum_setting(self) -> str:
        if self._first_voters is None:
            return f"controller.quorum.voters={self.voters}"
        servers = ",".join(entry.partition("@")[2] for entry in self.voters.split(","))
        return f"controller.quorum.bootstrap.servers={servers}"

    def key(self, node_id: int) -> ReplicaKey:
        """The replica of a node, as it was formatted."""
        return ReplicaKey(node_id, uuid(1_000 + node_id))

    def endpoint(self, node_id: int) -> Endpoint:
        return Endpoint("CONTROLLER", LOOPBACK, self._ports[node_id])

    def move(self, node_id: int) -> None:
        """Gives the controller of a node another address, from its next start on."""
        self._ports[node_id] = free_port()

    def _voter_set(self, node_id: int) -> VoterSet | None:
        """What a node is formatted with; nothing for one that is not a voter."""
        voters = self._first_voters
        if voters is None or node_id not in voters:
            return None
        return VoterSet.of(
            VoterNode(self.key(voter), (self.endpoint(voter),), KRAFT_VERSIONS) for voter in voters
        )

    def format(self, node_id: int) -> None:
        """Formats an empty disk as it was formatted at first."""
        config, files = self.config(node_id), self.files[node_id]
        files.make_directory("/data")
        request = FormatRequest(
            CLUSTER_ID,
            node_id,
            config.log_dirs,
            config.metadata_log_dir,
            is_quorum_dynamic=self._first_voters is not None,
            voters=self._voter_set(node_id),
        )

        def new_id() -> Uuid:
            key = self.key(node_id).directory_id
            assert key is not None
            return key

        for _ in plan_format(files, request, new_id).run(files, 0, "formatted for a test"):
            pass

    # --- life

    async def start(self, *node_ids: int) -> None:
        """Starts nodes at the same time; all of them if none is named."""
        wanted = node_ids or tuple(self._roles)
        await asyncio.gather(*(self._start(node_id) for node_id in wanted))

    async def _start(self, node_id: int) -> None:
        node = Broker(
            self.config(node_id), files=self.files[node_id], report=self.reports[node_id].append
        )
        self.nodes[node_id] = node
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        told_to_stop = asyncio.Event()
        life = asyncio.ensure_future(self._live(node, ready, told_to_stop))  # noqa: TID251
        self._lives[node_id] = (life, told_to_stop)
        await asyncio.wait([ready, life], return_when=asyncio.FIRST_COMPLETED)
        if life.done():
            await life

    async def _live(
        self, node: Broker, ready: asyncio.Future[None], told_to_stop: asyncio.Event
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            try:
                await node.start(tasks)
                ready.set_result(None)
                await told_to_stop.wait()
            finally:
                await node.stop()

    async def stop(self, *node_ids: int) -> None:
        """Stops nodes in peace, at the same time."""
        lives = [self._lives.pop(node_id) for node_id in node_ids or tuple(self._lives)]
        for _, told_to_stop in lives:
            told_to_stop.set()
        await asyncio.gather(*(life for life, _ in lives))

    async def kill(self, *node_ids: int) -> None:
        """Ends nodes without a word to the others, at the same time; their disks keep all."""
        for node_id in node_ids or tuple(self._lives):
            self.nodes[node_id].sever()
        await self.stop(*node_ids)

    async def ended(self, node_id: int, seconds: float) -> BaseException:
        """Waits for a node to end by itself; what it ended with."""
        life, _ = self._lives[node_id]
        await asyncio.wait([life], timeout=seconds)
        assert life.done(), f"node {node_id} goes on"
        del self._lives[node_id]
        error = life.exception()
        assert error is not None
        return error

    # --- questions

    def leader(self) -> int | None:
        """The node whose controller is active, as it knows itself."""
        for node_id in self._lives:
            active = self.nodes[node_id].services.metadata.active
            if active is not None and active.activated.done():
                return node_id
        return None

    async def until(self, condition: Callable[[], Any], seconds: float = 20) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  It is about several nodes.
                await asyncio.sleep(0.01)


@asynccontextmanager
async def cluster(roles: dict[int, str] | None = None, *settings: str) -> AsyncIterator[Cluster]:
    """A running cluster, of three nodes with both roles unless others are named."""
    made = Cluster(roles or dict.fromkeys((1, 2, 3), BOTH), *settings)
    try:
        async with asyncio.timeout(30):
            await made.start()
        yield made
    finally:
        await made.stop()
