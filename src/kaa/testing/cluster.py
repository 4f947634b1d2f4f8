"""Several nodes as one cluster inside a test: brokers and controllers both.

    from kaa.testing import Cluster

    with Cluster() as cluster:
        run_my_code(cluster.bootstrap_servers)
        cluster.kill(cluster.controller)
        cluster.cut(1, 2)
        cluster.heal()

The nodes are real: they elect a controller over the loopback interface, register, forward and
replicate. Each has a thread of its own in this process and its disk in memory, or with
`process=True` it is a child process with its data in a temporary folder. Ports stay over a restart,
so that clients find a node again.

**Kill.** Nothing is flushed or said: connections are cut, the disk is what a power cut leaves (or,
with `keep_unflushed`, what a killed process leaves), and the rest of the cluster has to notice. A
child is killed by SIGKILL, and the system keeps what it had written.

**Pause** and **cut** last until `heal`; `cluster_nodes` says what they do.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Self

from kaa import limits
from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.controller.formatting import FormatRequest, plan_format
from kaa.model.nodes import Endpoint
from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from kaa.testing.clock import machine_ns
from kaa.testing.cluster_nodes import ChildNode, MemoryNode
from kaa.wire.primitives import random_uuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.testing.cluster_nodes import ClusterNode

LOOPBACK = "127.0.0.1"
_REPLICAS_MAX = 3
# Below those that Linux, macOS and Windows give to outgoing connections.
_PORTS = range(20_000, 32_000)


class Cluster:
    """Several nodes as one cluster, with the ids 1, 2, ...; it runs inside `with`.

    They share this process and keep their data in memory, or with `process=True` are children with
    folders of their own. Nodes can be stopped, killed, paused and cut off from each other.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        overrides: Mapping[str, object] | None = None,
        process: bool = False,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster has at least one node, not {nodes}")
        self._count = nodes
        self._overrides = [f"{name}={value}" for name, value in (overrides or {}).items()]
        self._is_process = process
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._nodes: dict[int, ClusterNode] = {}
        # Pairs of nodes that do not reach each other.
        self._cuts: set[frozenset[int]] = set()

    # --- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts every node; all of them serve when this returns."""
        ports = iter(_free_ports(2 * self._count))
        pairs = enumerate(zip(ports, ports, strict=True), start=1)
        self._nodes = {node_id: self._made(node_id, pair) for node_id, pair in pairs}
        self._format()
        try:
            self._launch(self._nodes.values())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends every node. What they had stored is gone, so that nobody waits for a clean stop."""
        for node in self._nodes.values():
            node.kill(keep_unflushed=True)
            if isinstance(node, ChildNode):
                node.clean_up()
        self._nodes = {}
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def kill(self, node_id: int, *, keep_unflushed: bool = False) -> None:
        """Ends a node without a clean stop; `restart` goes on with what is left of its disk."""
        self._node(node_id).kill(keep_unflushed=keep_unflushed)

    def restart(self, node_id: int) -> None:
        """Starts a node again on the same disk and ports, after a clean stop if it still runs."""
        node = self._node(node_id)
        if node.is_running:
            node.stop()
        self._launch([node])

    def pause(self, node_id: int) -> None:
        """Holds a node, its connections open, until `heal`: it neither speaks nor answers."""
        self._node(node_id).pause()

    def cut(self, one: int, other: int) -> None:
        """Parts two nodes until `heal`; clients and the other nodes still reach both."""
        if one == other:
            raise ValueError(f"node {one} cannot be cut off from itself")
        self._cuts.add(frozenset((self._node(one).id, self._node(other).id)))
        self._part()

    def heal(self) -> None:
        """Ends every pause and every cut. A node that was killed stays down until `restart`."""
        self._cuts.clear()
        self._part()
        for node in self._nodes.values():
            node.resume()

    # --- facts

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the brokers that run, as clients want them."""
        return ",".join(f"{LOOPBACK}:{node.ports[0]}" for node in self._running())

    @property
    def controller(self) -> int:
        """The node whose controller is active, of those that are not paused; waits for one."""
        pause = threading.Event()
        end_ns = machine_ns() + int(limits.TESTING_START_SECONDS_MAX * 1e9)
        while machine_ns() < end_ns:
            found = self._find_controller()
            if found is not None:
                return found
            pause.wait(limits.TESTING_POLL_SECONDS)
        raise TimeoutError(f"no controller for {limits.TESTING_START_SECONDS_MAX:g} s")

    def reports(self, node_id: int) -> list[str]:
        """What a node said about itself: trouble that no client heard of."""
        return list(self._node(node_id).reports)

    # --- the nodes

    def _made(self, node_id: int, ports: tuple[int, int]) -> ClusterNode:
        if not self._is_process:
            return MemoryNode(node_id, ports)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kaa-cluster-")
        return ChildNode(node_id, ports, Path(self._folder.name, f"node-{node_id}"))

    def _launch(self, nodes: Iterable[ClusterNode]) -> None:
        for node, ready in [(node, node.launch(self._settings(node))) for node in nodes]:
            try:
                ready.result(limits.TESTING_START_SECONDS_MAX)
            except TimeoutError:
                raise TimeoutError(
                    f"node {node.id} was not ready in {limits.TESTING_START_SECONDS_MAX:g} s, and "
                    f"goes on starting: a majority of all {self._count} must run for that"
                ) from None

    def _node(self, node_id: int) -> ClusterNode:
        node = self._nodes.get(node_id)
        if node is None:
            raise ValueError(f"there is no node {node_id}; there are 1 to {self._count}")
        return node

    def _running(self) -> list[ClusterNode]:
        return [node for node in self._nodes.values() if node.is_running]

    def _part(self) -> None:
        for node in self._nodes.values():
            others = {each for cut in self._cuts if node.id in cut for each in cut - {node.id}}
            node.cut(frozenset(port for each in others for port in self._nodes[each].ports))

    def _find_controller(self) -> int | None:
        awake = [node for node in self._running() if not node.is_paused]
        epochs = {node.id: epoch for node in awake if (epoch := node.active_epoch) is not None}
        # One that was cut off may still believe that it leads.
        return max(epochs, key=epochs.__getitem__, default=None)

    # --- settings

    def _settings(self, node: ClusterNode) -> list[str]:
        servers = ",".join(f"{LOOPBACK}:{each.ports[1]}" for each in self._nodes.values())
        replicas = min(self._count, _REPLICAS_MAX)
        port, controller_port = node.ports
        listeners = f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}"
        return [
            f"node.id={node.id}",
            f"listeners={listeners}",
            f"controller.quorum.bootstrap.servers={servers}",
            # Elections take as long as it takes to notice; a test should not wait for that.
            "controller.quorum.election.timeout.ms=200",
            "broker.heartbeat.interval.ms=200",
            "broker.session.timeout.ms=3000",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.num.partitions=1",
            f"default.replication.factor={replicas}",
            f"offsets.topic.replication.factor={replicas}",
            f"transaction.state.log.replication.factor={replicas}",
            f"transaction.state.log.min.isr={replicas // 2 + 1}",
            *self._overrides,
        ]

    def _format(self) -> None:
        random = SystemRandom()
        new_id = partial(random_uuid, random.randbytes)
        cluster_id = str(new_id())
        voters = VoterSet.of(
            VoterNode(
                ReplicaKey(node.id, new_id()),
                (Endpoint("CONTROLLER", LOOPBACK, node.ports[1]),),
                KRAFT_VERSIONS,
            )
            for node in self._nodes.values()
        )
        for node in self._nodes.values():
            settings = development_settings(node.data_folder, overrides=self._settings(node))
            config = load_broker_config(settings).config
            request = FormatRequest(
                cluster_id=cluster_id,
                node_id=node.id,
                directories=config.log_dirs,
                metadata_directory=config.metadata_log_dir,
                is_quorum_dynamic=True,
                voters=voters,
            )
            for _ in plan_format(node.files, request, new_id).run(node.files, 0, "for a test"):
                pass


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has now. No system gives them to those who ask for any port, so that the
    port of a node that is not up, or down for a while, stays free for it.
    """
    found: list[int] = []
    with ExitStack() as held:
        for port in SystemRandom().sample(_PORTS, len(_PORTS)):
            with suppress(OSError):
                held.enter_context(socket.create_server((LOOPBACK, port)))
                found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"{LOOPBACK} has no {count} free ports in {_PORTS.start} to {_PORTS.stop - 1}")
