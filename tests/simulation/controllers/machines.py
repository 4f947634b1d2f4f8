"""Controllers of the world: the real node in that role alone, with voters that change.

A machine may get an empty disk: what comes back under its id is another replica, which knows no
voters and may join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.config.server import load_broker_config
from kaa.config.sources import merge_settings
from kaa.controller.formatting import FormatRequest, plan_format
from kaa.log.sim_files import SimFiles
from kaa.model.nodes import Endpoint
from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from kaa.wire.primitives import Uuid
from tests.simulation.world.processes import CLUSTER_ID, CONTROLLER_PORT, DATA, Node, host_of

if TYPE_CHECKING:
    from kaa.quorum.driver import QuorumDriver
    from tests.simulation.world.kernel import Kernel
    from tests.simulation.world.network import SimNetwork


class Controller(Node):
    """See the module's text."""

    def __init__(
        self,
        kernel: Kernel,
        network: SimNetwork,
        node_id: int,
        machines: tuple[int, ...],
        first_voters: tuple[int, ...] | None,
        seed: int,
        *settings: str,
    ) -> None:
        """The log says who votes, `first_voters` at first; None for static voters: all."""
        super().__init__(kernel, network, node_id, machines, seed)
        self.id = node_id
        self._first_voters = first_voters
        self._disks = 1
        servers = ",".join(f"{host_of(each)}:{CONTROLLER_PORT}" for each in machines)
        voters = ",".join(f"{each}@{host_of(each)}:{CONTROLLER_PORT}" for each in machines)
        overrides = [
            f"node.id={node_id}",
            "process.roles=controller",
            f"listeners=CONTROLLER://{self.name}:{CONTROLLER_PORT}",
            "controller.listener.names=CONTROLLER",
            (
                f"controller.quorum.voters={voters}"
                if first_voters is None
                else f"controller.quorum.bootstrap.servers={servers}"
            ),
            f"log.dirs={DATA}",
            *settings,
        ]
        self.config = load_broker_config(merge_settings(overrides=overrides)).config

    @property
    def quorum(self) -> QuorumDriver | None:
        return None if self.broker is None else self.broker.quorum

    @property
    def key(self) -> ReplicaKey:
        return key_of(self.id, self._disks)

    @property
    def endpoint(self) -> Endpoint:
        return endpoint_of(self.id)

    def replace_disk(self) -> None:
        """An empty disk, in a machine that is off."""
        assert not self.is_up
        self.kernel.say(self.name, "has a new disk")
        self._disks += 1
        self.is_formatted = False
        self.files = SimFiles(seed=self.random.randrange(2**31))

    def _format(self) -> None:
        voters = self._first_voters
        is_first = voters is not None and self.id in voters and self._disks == 1
        request = FormatRequest(
            CLUSTER_ID,
            self.id,
            self.config.log_dirs,
            self.config.metadata_log_dir,
            is_quorum_dynamic=voters is not None,
            voters=(
                VoterSet.of(
                    VoterNode(key_of(each, 1), (endpoint_of(each),), KRAFT_VERSIONS)
                    for each in voters or ()
                )
                if is_first
                else None
            ),
        )

        def new_id() -> Uuid:
            directory_id = self.key.directory_id
            assert directory_id is not None
            return directory_id

        plan = plan_format(self.files, request, new_id)
        for _ in plan.run(self.files, self.clock.wall_ms(), "formatted in the world"):
            pass


def key_of(node_id: int, disk: int) -> ReplicaKey:
    return ReplicaKey(node_id, Uuid((0x10 << 64 | node_id << 8 | disk).to_bytes(16, "big")))


def endpoint_of(node_id: int) -> Endpoint:
    return Endpoint("CONTROLLER", host_of(node_id), CONTROLLER_PORT)
