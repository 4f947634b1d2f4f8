"""Puts a replica of the quorum together: recovered log, voters, machine, driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.log.quorum_state import read_quorum_state
from kaa.quorum.control_state import ControlState
from kaa.quorum.driver import QuorumDriver
from kaa.quorum.election import ElectionState
from kaa.quorum.machine import QuorumMachine
from kaa.quorum.voters import ReplicaKey, VersionRange, VoterNode
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from concurrent.futures import Executor
    from random import Random

    from kaa.log.files import Files
    from kaa.log.quorum_state import QuorumStateData
    from kaa.quorum.config import QuorumConfig
    from kaa.quorum.metadata_log import OpenedLog
    from kaa.quorum.replicated_state import Clock, QuorumNetwork, ReplicatedState
    from kaa.quorum.voters import Endpoints, VoterSet
    from kaa.wire.primitives import Uuid

KRAFT_VERSIONS = VersionRange(0, 1)


class QuorumNode(NamedTuple):
    """Who this replica is, and whom it knows."""

    cluster_id: str
    node_id: int
    directory_id: Uuid
    listener: str
    """The name of the listener that replicas of the quorum talk on."""
    endpoints: Endpoints
    static_voters: VoterSet
    """From ``controller.quorum.voters``; empty where the log says who votes."""
    config: QuorumConfig


class NotAVoterError(Exception):
    """The node is to be a controller and nobody has made it a voter."""


class _Jitter:
    def __init__(self, random: Random) -> None:
        self._random = random

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def build_driver(
    opened: OpenedLog,
    node: QuorumNode,
    *,
    state: ReplicatedState,
    files: Files,
    clock: Clock,
    executor: Executor,
    loop: asyncio.AbstractEventLoop,
    random: Random,
    network: QuorumNetwork | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> QuorumDriver:
    """A driver that is ready to ``start`` from the snapshot of the opened log."""
    control = ControlState(node.static_voters)
    control.read(opened)
    local = ReplicaKey(node.node_id, node.directory_id)
    if not control.voters.last().is_voter(local):
        raise NotAVoterError(
            f"node {node.node_id} is not among the voters of the quorum: name it in"
            " controller.quorum.voters, or format its directories with --standalone"
        )
    stored = read_quorum_state(files, opened.log.folder)
    machine = QuorumMachine(
        cluster_id=node.cluster_id,
        local=local,
        local_endpoints=node.endpoints,
        listener=node.listener,
        log=opened.log,
        random=_Jitter(random),
        voters=control.voters,
        election=None if stored is None else _election(stored),
        config=node.config,
    )
    return QuorumDriver(
        machine=machine,
        log=opened.log,
        control=control,
        state=state,
        local_voter=VoterNode(local, node.endpoints, KRAFT_VERSIONS),
        files=files,
        clock=clock,
        executor=executor,
        loop=loop,
        network=network,
        report=report,
    )


def _election(stored: QuorumStateData) -> ElectionState:
    directory_id = stored.voted_directory_id
    return ElectionState(
        epoch=max(stored.leader_epoch, 0),
        leader_id=None if stored.leader_id < 0 else stored.leader_id,
        voted_key=(
            None
            if stored.voted_id < 0
            else ReplicaKey(stored.voted_id, None if directory_id == UUID_ZERO else directory_id)
        ),
    )
