"""The part of a node that every role has: its replica of the metadata, and the ways to others.

Consensus, heartbeats, changes of in-sync replicas, directories of replicas and forwarding have
connections of their own, as in Kafka: answers on one come in the order of the requests, and neither
a heartbeat nor a producer that waits for its replicas must wait for a long poll or for a thousand
new topics. Blocks of producer ids go with what is forwarded, since clients wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.broker.assembly import make_quorum_node
from kaa.broker.lifecycle.controllers import ControllerRegistration
from kaa.client.peer import Peers, peer_settings
from kaa.controller.channel import ControllerChannel
from kaa.controller.replica import MetadataReplica
from kaa.model.nodes import SecurityProtocol
from kaa.quorum.transport import QuorumTransport
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from concurrent.futures import Executor
    from random import Random

    from kaa.config.server import BrokerConfig
    from kaa.log.dirs import LogDirectory
    from kaa.model.nodes import Endpoint
    from kaa.model.seams import Clock


class NodeMetadata:
    """The metadata replica of a node with its driver, log and connections. `open`, `start`, and
    `stop` after everything else has stopped.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster_id: str,
        directory: LogDirectory,
        directory_id: Uuid,
        endpoints: tuple[Endpoint, ...],
        executor: Executor,
        clock: Clock,
        random: Random,
        report: Callable[[str], None],
    ) -> None:
        """`endpoints` are those of the controller here, none without one."""
        self._config = config
        self._random = random
        self._report = report
        self._endpoints = endpoints
        self._node = make_quorum_node(config, cluster_id, directory_id, endpoints)
        self.replica = MetadataReplica(
            config=config,
            node=self._node,
            directory=directory,
            executor=executor,
            clock=clock,
            random=random,
            report=report,
        )
        self._peers: list[Peers] = []
        self.replica.on_controllers_changed = self._keep_connections
        self.heartbeats = self._channel("heartbeats")
        self.isr_changes = self._channel("isr-changes")
        self.directories = self._channel("directories")
        # What is passed on for clients, or asked for because of them.
        self.forwarding = self._channel("forwarding")
        self._transport: QuorumTransport | None = None
        self._registration = self._make_registration() if endpoints else None

    def _make_registration(self) -> ControllerRegistration:
        registration = ControllerRegistration(
            self._config.node_id, self.heartbeats, self._endpoints, self._random, self._report
        )
        # Before the log is read, so that nothing of it is missed.
        self.replica.subscribe("the controller's registration", registration.follow)
        return registration

    def _make_peers(self, purpose: str, timeout_ms: int) -> Peers:
        settings = peer_settings(
            _controller_protocol(self._config),
            client_id=f"node-{self._config.node_id}-{purpose}",
            request_timeout_ms=timeout_ms,
        )
        peers = Peers(settings, self._random)
        self._peers.append(peers)
        return peers

    def _channel(self, purpose: str) -> ControllerChannel:
        timeout_ms = self._config.get_int("request.timeout.ms")
        return ControllerChannel(
            self.replica,
            self._make_peers(purpose, timeout_ms),
            self._random,
            node_id=self._config.node_id,
            timeout_ms=timeout_ms,
        )

    async def open(self, tasks: asyncio.TaskGroup) -> None:
        """Recovers the metadata log; other replicas may ask from then on."""
        timeout_ms = self._node.config.request_timeout_ms
        self._transport = QuorumTransport(
            self._make_peers("quorum", timeout_ms),
            tasks,
            listener=self._node.listener,
            timeout_ms=timeout_ms,
            report=self._report,
        )
        await self.replica.open(self._transport)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Joins the quorum."""
        self.replica.start(tasks)
        if self._registration is not None:
            self._registration.begin(tasks, Uuid(self._random.randbytes(16)))

    async def stop(self) -> None:
        if self._registration is not None:
            self._registration.stop()
        await self.replica.stop()

    def sever(self) -> None:
        """Leaves the quorum without a word."""
        self.close()
        self.replica.driver.close()

    @property
    def connected_ids(self) -> frozenset[int]:
        """The controllers to which there is a connection, or was one that may be needed again."""
        return frozenset().union(*(peers.node_ids for peers in self._peers))

    def _keep_connections(self, controllers: frozenset[int]) -> None:
        """A controller that neither votes nor leads is not asked for anything."""
        for peers in self._peers:
            peers.keep(controllers)

    def close(self) -> None:
        """Ends all connections to other nodes."""
        if self._transport is not None:
            self._transport.close()
        for peers in self._peers:
            peers.close()


def _controller_protocol(config: BrokerConfig) -> SecurityProtocol:
    """What controllers talk; a broker alone has no listener of theirs, and PLAINTEXT is all there
    is so far.
    """
    for endpoint in config.listeners.controller:
        return SecurityProtocol(endpoint.security_protocol)
    return SecurityProtocol.PLAINTEXT
