"""Voters that change while faults happen: who changes them, and what may not come of it.

Beside the brokers there are controllers without that role. Everybody may vote; three do at first.
The elector asks who votes and follows, and adds, removes and replaces voters one at a time. A
controller may lose its disk and come back with an empty one (`disk replaced`). That is another
voter by its directory's id, so that the old one has to be removed, and the new one to be added.

What no quorum survives is not done: a disk is lost only while everybody is there, nobody votes by a
disk that is gone, and three vote at least. And of voters that are there none is removed while one
by a disk that is gone has a vote, or only three have.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kaa.client import Admin
from kaa.model.nodes import Endpoint
from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from kaa.wire.primitives import random_uuid
from tests.simulation.world.committed import InvariantError
from tests.simulation.world.processes import CONTROLLER_PORT, host_of
from tests.simulation.world.workload import Client

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Sequence
    from random import Random

    from kaa.client.admin.quorum import QuorumDescription, QuorumReplica
    from kaa.quorum.voters import VoterSetHistory
    from kaa.wire.primitives import Uuid
    from tests.simulation.world.processes import ClientProcess, Node
    from tests.simulation.world.workload import Workload

VOTERS_MIN = 3
VOTERS_MAX = 5
# A request without an answer may still be on its way; longer than any link is slow.
UNCERTAIN_SECONDS = 6.0


def endpoints_of(node_id: int) -> tuple[Endpoint, ...]:
    return (Endpoint("CONTROLLER", host_of(node_id), CONTROLLER_PORT),)


def first_voters(node_ids: Iterable[int], random: Random) -> VoterSet:
    """The voters that directories are formatted with."""
    return VoterSet.of(
        VoterNode(
            ReplicaKey(node_id, random_uuid(random.randbytes)),
            endpoints_of(node_id),
            KRAFT_VERSIONS,
        )
        for node_id in node_ids
    )


def has_majority(voters: VoterSet, disks: Iterable[tuple[str, Uuid | None]]) -> bool:
    """Whether most of the voters are among these nodes with these disks."""
    known = set(disks)
    having = [
        voter
        for voter in voters.voters
        if (host_of(voter.key.id), voter.key.directory_id) in known
        # Static voters have no directories.
        or (
            voter.key.directory_id is None
            and any(name == host_of(voter.key.id) for name, _ in known)
        )
    ]
    return len(having) >= voters.majority()


def can_spare(nodes: Sequence[Node], node: Node) -> bool:
    """Whether the quorum certainly does without the vote of a node for ever."""
    disks = {(other.name, other.directory_id) for other in nodes}
    for other in nodes:
        driver = None if other.process is None else other.process.quorum
        if driver is None or not other.is_ready or not node.is_ready:
            return False
        history = driver.machine._replica.voters
        for voters in (history.last(), history.before_last()):
            if voters is not None and not _are_there(voters, disks):
                return False
    return True


def _are_there(voters: VoterSet, disks: set[tuple[str, Uuid | None]]) -> bool:
    names = {(host_of(one.key.id), one.key.directory_id) for one in voters.voters}
    return len(names) >= VOTERS_MIN and names <= disks


class VoterSets:
    """The committed sets of voters, as nodes have them."""

    def __init__(self, seen: Counter[str]) -> None:
        self._seen = seen
        self._sets: dict[int, VoterSet] = {}
        # By node, since which high watermark it leads a quorum that it has no vote in.
        self._removed: dict[str, int] = {}

    def look_at_leader(
        self, who: str, key: ReplicaKey, history: VoterSetHistory, high: int
    ) -> None:
        """A leader without a vote resigns once that is committed, and commits nothing more."""
        offset = history.last_offset()
        if history.last().is_voter(key) or offset is None or offset >= high:
            self._removed.pop(who, None)
        elif self._removed.setdefault(who, high) < high:
            raise InvariantError("removed-leader", f"{who}: {high}, its vote ended at {offset}")

    def look(self, who: str, history: VoterSetHistory, high_watermark: int) -> None:
        offset = history.last_offset()
        if offset is None or offset >= high_watermark or offset in self._sets:
            self._compare(who, history, offset)
            return
        voters = history.last()
        earlier = [known for known in self._sets if known < offset]
        self._sets[offset] = voters
        if earlier:
            before = self._sets[max(earlier)]
            old, new = _keys(before), _keys(voters)
            # A node that was away may skip some, and then another node has seen them.
            if len(new - old) > 1 or len(old - new) > 1:
                detail = f"{who}: {sorted(map(str, old))}, then {sorted(map(str, new))}"
                raise InvariantError("voter-steps", detail)
            self._seen["voters added"] += len(new - old)
            self._seen["voters removed"] += len(old - new)

    def _compare(self, who: str, history: VoterSetHistory, offset: int | None) -> None:
        known = None if offset is None else self._sets.get(offset)
        if known is not None and known != history.last():
            raise InvariantError("voter-steps", f"{who} at {offset}: {history.last()}, not {known}")


def _keys(voters: VoterSet) -> set[ReplicaKey]:
    return {voter.key for voter in voters.voters}


class Elector(Client):
    """Changes who votes, one at a time, knowing which disks are gone."""

    def __init__(
        self, workload: Workload, process: ClientProcess, number: int, nodes: Sequence[Node]
    ) -> None:
        super().__init__(workload, process, number)
        self._nodes = {node.config.node_id: node for node in nodes}

    async def work(self) -> None:
        async with Admin(self.workload.settings(), **self.given) as admin:
            while not self.is_over:
                await asyncio.sleep(self.random.expovariate(0.7))
                described = await admin.describe_quorum()
                await self._change(admin, described)

    async def _change(self, admin: Admin, described: QuorumDescription) -> None:
        voters = described.voters
        ids = {voter.node_id for voter in voters}
        gone = [voter for voter in voters if not self._is_there(voter)]
        new = [one for one in described.observers if self._is_there(one) and one.node_id not in ids]
        removable = gone
        if not gone and len(voters) > VOTERS_MIN:
            removable = list(voters)
        may_add = new and len(voters) < VOTERS_MAX
        try:
            if removable and (gone or not may_add or self.random.random() < 0.5):
                chosen = self.random.choice(removable)
                await admin.remove_raft_voter(chosen.node_id, chosen.directory_id)
                self._note("removed", chosen, described)
            elif may_add:
                chosen = self.random.choice(new)
                await admin.add_raft_voter(
                    chosen.node_id, chosen.directory_id, endpoints_of(chosen.node_id)
                )
                self._note("added", chosen, described)
        except BaseException:
            await asyncio.sleep(UNCERTAIN_SECONDS)
            raise

    def _note(self, what: str, voter: QuorumReplica, described: QuorumDescription) -> None:
        counts = self.workload.counts
        counts["voter changes answered"] += 1
        counts["leaders removed"] += what == "removed" and voter.node_id == described.leader_id
        counts["voters replaced"] += what == "removed" and not self._is_there(voter)
        self.process.kernel.say(self.process.name, f"voter {voter.node_id} is {what}")

    def _is_there(self, replica: QuorumReplica) -> bool:
        node = self._nodes.get(replica.node_id)
        return node is not None and node.directory_id == replica.directory_id


def are_settled(nodes: Sequence[Node]) -> bool:
    """Whether no node counts a vote of a disk that is gone."""
    disks = {(node.name, node.directory_id) for node in nodes}
    drivers: list[Any] = [None if node.process is None else node.process.quorum for node in nodes]
    return all(
        driver is not None
        and all(
            (host_of(voter.key.id), voter.key.directory_id) in disks
            for voter in driver.machine._replica.voter_set.voters
        )
        for driver in drivers
    )
