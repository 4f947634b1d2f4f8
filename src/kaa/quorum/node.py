"""Puts a replica of the quorum together: recovered log, voters, machine, driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.log.quorum_state import read_quorum_state
from kaa.quorum.control_state import ControlState
from kaa.quorum.driver import QuorumDriver
from kaa.quorum.election import ElectionState
from kaa.quorum.machine import QuorumMachine
from kaa.quorum.voters import KRAFT_VERSIONS, NO_KRAFT_VERSION, ReplicaKey, VoterNode, replica_key

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from concurrent.futures import Executor

    from kaa.log.files import Files
    from kaa.log.quorum_state import QuorumStateData
    from kaa.model.seams import Clock, RandomSource
    from kaa.quorum.config import QuorumConfig
    from kaa.quorum.metadata_log import OpenedLog
    from kaa.quorum.replicated_state import QuorumNetwork, ReplicatedState
    from kaa.quorum.voters import Endpoints, Node, VoterSet
    from kaa.wire.primitives import Uuid


class QuorumNode(NamedTuple):
    """Who this replica is, and whom it knows."""

    cluster_id: str
    node_id: int
    directory_id: Uuid
    # The name of the listener that replicas of the quorum talk on.
    listener: str
    endpoints: Endpoints
    # From `controller.quorum.voters`; empty where the log says who votes.
    static_voters: VoterSet
    config: QuorumConfig
    # Whom to ask for the leader while it is not known.
    bootstrap: tuple[Node, ...] = ()
    # Whether the node may vote; others only follow.
    is_controller: bool = True
    # Whether a controller that is not a voter asks to be one (KIP-853).
    joins_by_itself: bool = False


class NotAVoterError(Exception):
    """The node is to be a controller and nobody has made it a voter."""


def build_driver(
    opened: OpenedLog,
    node: QuorumNode,
    *,
    state: ReplicatedState,
    files: Files,
    clock: Clock,
    executor: Executor,
    loop: asyncio.AbstractEventLoop,
    random: RandomSource,
    network: QuorumNetwork | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> QuorumDriver:
    """A driver that is ready to `start` from the snapshot of the opened log."""
    control = ControlState(node.static_voters)
    control.read(opened)
    local = ReplicaKey(node.node_id, node.directory_id)
    is_voter = control.voters.last().is_voter(local)
    # Once the log says who votes, a controller that was removed goes on as an observer.
    is_static = control.kraft_version == NO_KRAFT_VERSION and bool(node.static_voters)
    if node.is_controller and not is_voter and (is_static or not node.bootstrap):
        # To format them again would be the end of the topics, if only the metadata is gone.
        lost = f"; if it has run before, {opened.log.folder} was lost: restore it from a backup"
        raise NotAVoterError(
            f"node {node.node_id} is not among the voters of the quorum: name it in"
            " controller.quorum.voters, or format its directories with --standalone"
            f"{'' if opened.log.end().offset else lost}"
        )
    if node.is_controller and not is_voter:
        report(_without_a_vote(node, control, is_new=not opened.log.end().offset))
    stored = read_quorum_state(files, opened.log.folder)
    machine = QuorumMachine(
        cluster_id=node.cluster_id,
        local=local,
        local_endpoints=node.endpoints,
        listener=node.listener,
        log=opened.log,
        random=random,
        voters=control.voters,
        bootstrap=node.bootstrap,
        election=None if stored is None else _election(stored),
        config=node.config,
        can_become_voter=node.is_controller,
        kraft_version=lambda: control.kraft_version,
        joins_by_itself=node.joins_by_itself,
    )
    return QuorumDriver(
        machine=machine,
        log=opened.log,
        control=control,
        state=state,
        listener=node.listener,
        local_voter=VoterNode(local, node.endpoints, KRAFT_VERSIONS),
        files=files,
        clock=clock,
        executor=executor,
        loop=loop,
        network=network,
        report=report,
        linger_ms=node.config.append_linger_ms,
    )


def _without_a_vote(node: QuorumNode, control: ControlState, *, is_new: bool) -> str:
    """What an operator may not know of a controller that only follows."""
    known = control.voters.last().get(node.node_id)
    if known is not None and not node.joins_by_itself:
        return (
            f"this controller has no vote: the quorum knows node {node.node_id} by directory.id "
            f"{known.key.directory_id}, and its meta.properties says {node.directory_id}; put that "
            "id back if this is the directory that voted, or let the quorum forget it (kaa cluster "
            "quorum remove) and add this one (kaa cluster quorum add)"
        )
    servers = ", ".join(f"{server.host}:{server.port}" for server in node.bootstrap)
    own = {(endpoint.host, endpoint.port) for endpoint in node.endpoints}
    if own.issuperset((server.host, server.port) for server in node.bootstrap):
        return (
            f"this controller has no vote, and {servers} in controller.quorum.bootstrap.servers is "
            "this controller itself: if it has voted before, restore __cluster_metadata-0 from a "
            "backup or set controller.quorum.voters again; otherwise name the controllers of the "
            "quorum"
        )
    said = f"this controller has no vote, and follows the quorum that answers at {servers}"
    if not is_new and control.kraft_version == NO_KRAFT_VERSION and not control.voters.last():
        said += "; if it has voted before, set controller.quorum.voters again"
    if node.joins_by_itself:
        return f"{said}; it will ask for one"
    return f"{said}; kaa cluster quorum add gives it one"


def _election(stored: QuorumStateData) -> ElectionState:
    return ElectionState(
        epoch=max(stored.leader_epoch, 0),
        leader_id=None if stored.leader_id < 0 else stored.leader_id,
        voted_key=(
            None if stored.voted_id < 0 else replica_key(stored.voted_id, stored.voted_directory_id)
        ),
    )
