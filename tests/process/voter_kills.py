"""A voter killed at the Nth system call that changes files, while a quorum elects or changes.

Three controllers vote. A point names a scene, whose part in it dies, and at which call: the node is
told when its part begins (`voter_nodes`), and dies wherever in the scene that call is.

| scene | what happens | parts |
|---|---|---|
| election | the leader is killed, comes back when there is another | one, other, returning |
| follower | a follower loses its vote, and gets it back | leader, bystander, changing |
| leader | the leader loses its own vote, and gets it back | one, other, changing |
| replacement | a follower comes back with an empty disk, and joins | leader, bystander, joining |

In each of them settings change too, so much that every node takes a snapshot. A node that is found
dead is started again. Afterwards the three must vote, by the ids of the directories that they have
now, and have one metadata log on their disks, with every change that was acknowledged.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from kaa.client.errors import ClientError
from kaa.client.sync import Admin
from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.oracle.environment import wait_until
from tests.process.voter_nodes import AUTO_JOIN, Voter, new_id
from tests.support.metadata_logs import batches, check_one_log
from tests.support.ports import free_port
from tests.support.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kaa.client.admin.quorum import QuorumDescription

IDS: Final = (1, 2, 3)
PATIENCE_SECONDS: Final = 240
SCENES: Final = {
    "election": ("one", "other", "returning"),
    "follower": ("leader", "bystander", "changing"),
    "leader": ("one", "other", "changing"),
    "replacement": ("leader", "bystander", "joining"),
}
# Together above what makes a snapshot due.
CHANGES: Final = 30
GROUP: Final = 32
ALTER_VERSION: Final = 1


class Point(NamedTuple):
    """Whose process dies where."""

    scene: str
    part: str
    kind: str
    number: int

    @classmethod
    def parse(cls, text: str) -> Self:
        scene, part, kind, number = text.split("/")
        return cls(scene, part, kind, int(number))

    def __str__(self) -> str:
        return "/".join(map(str, self))


class VoterStory:
    """Three controllers that play one scene after the other. As a context; every process ends with
    it.
    """

    def __init__(self, folder: Path) -> None:
        ports = [free_port() for _ in IDS]
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.nodes = {
            node_id: Voter(node_id, folder, port, servers)
            for node_id, port in zip(IDS, ports, strict=True)
        }
        self._cluster_id = str(new_id())
        voters = VoterSet.of(
            VoterNode(ReplicaKey(node.id, new_id()), (node.endpoint,), KRAFT_VERSIONS)
            for node in self.nodes.values()
        )
        for node in self.nodes.values():
            node.format(self._cluster_id, voters)
        # Nodes come and go all the time; nobody has to be spared.
        pauses = {"reconnect.backoff.max.ms": "100", "retry.backoff.max.ms": "100"}
        self._admin = Admin(
            {"bootstrap.controllers": servers, "default.api.timeout.ms": "2000", **pauses}
        )
        self._changes = 0
        self._promised: list[str] = []
        self._point: Point | None = None
        self._victim: Voter | None = None
        # That of the point before: it may have had its order read when that was taken back.
        self._last_victim: Voter | None = None

    def __enter__(self) -> Self:
        self._admin.start()
        try:
            for node in self.nodes.values():
                node.launch()
            self._settle()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._admin.close()
        for node in self.nodes.values():
            node.kill()

    def play(self, point: Point) -> bool:
        """Plays one scene and checks what is left; whether the victim met its point."""
        self._prepare(point)
        leader = self.nodes[self._described().leader_id]
        one, other = (node for node in self.nodes.values() if node is not leader)
        getattr(self, f"_play_{point.scene}")(leader, one, other)
        victim = self._victim
        assert victim is not None
        victim.countermand()
        self._settle()
        # Read while the nodes run: nothing is on its way when all of them have the same end.
        check_one_log(node.data_dir for node in self.nodes.values())
        self._check_promises()
        was_killed, victim.was_killed = victim.was_killed, False
        return was_killed

    def end(self) -> None:
        """Kills all nodes; their logs are one."""
        for node in self.nodes.values():
            node.kill()
        check_one_log(node.data_dir for node in self.nodes.values())
        self._check_promises()

    # --- the scenes

    def _play_election(self, leader: Voter, one: Voter, other: Voter) -> None:
        self._begin("one", one)
        self._begin("other", other)
        leader.kill()
        self._change()
        self._begin("returning", leader)
        leader.launch()
        self._until(self._is_settled)
        self._change()

    def _play_follower(self, leader: Voter, one: Voter, other: Voter) -> None:
        self._begin("leader", leader)
        self._begin("bystander", other)
        self._begin("changing", one)
        self._change_votes(one)

    def _play_leader(self, leader: Voter, one: Voter, other: Voter) -> None:
        self._begin("one", one)
        self._begin("other", other)
        self._begin("changing", leader)
        self._change_votes(leader)

    def _play_replacement(self, leader: Voter, one: Voter, other: Voter) -> None:
        self._begin("leader", leader)
        self._begin("bystander", other)
        one.kill()
        one.format(self._cluster_id, None)
        self._begin("joining", one)
        one.launch(AUTO_JOIN)
        self._until(self._is_settled)
        self._change()

    def _prepare(self, point: Point) -> None:
        self._point = point
        self._last_victim, self._victim = self._victim, None

    def _begin(self, part: str, node: Voter) -> None:
        """The part of a node in the scene begins."""
        assert self._point is not None
        if part == self._point.part:
            self._victim = node
            node.order(self._point.kind, self._point.number)

    def _change_votes(self, node: Voter) -> None:
        """Takes the vote of a node away, and gives it back."""
        directory_id = node.directory_id

        async def remove(admin: Any) -> None:
            await admin.remove_raft_voter(node.id, directory_id)

        async def add(admin: Any) -> None:
            await admin.add_raft_voter(node.id, directory_id, [node.endpoint])

        self._until_voters({*IDS} - {node.id}, remove)
        self._change()
        self._until_voters({*IDS}, add)
        self._change()

    # --- steps

    def _until(self, is_so: Callable[[], bool]) -> None:
        """Tries again while nodes are on their way down or up."""

        def tried() -> bool:
            self._revive()
            try:
                return is_so()
            except (ClientError, OSError, EOFError):
                return False

        if not wait_until(tried, PATIENCE_SECONDS):
            raise AssertionError(f"it did not come to be so: {is_so.__name__}")

    def _revive(self) -> None:
        """Starts the victim again if it has met its point; nobody else may end."""
        for node in self.nodes.values():
            code = node.exit_code()
            if code is None:
                continue
            assert code == -signal.SIGKILL, f"node {node.id} ended with {code}:\n{node.output}"
            if node is self._victim:
                assert not node.was_killed, f"node {node.id} died twice"
                node.was_killed = True
            else:
                assert node is self._last_victim, f"node {node.id} died, and was not to"
                self._last_victim = None
            node.kill()
            node.countermand()
            node.launch(*((AUTO_JOIN,) if self._joins() else ()))

    def _joins(self) -> bool:
        point = self._point
        return point is not None and point.scene == "replacement"

    def _until_voters(self, wanted: set[int], change: Callable[[Any], Any]) -> None:
        def has_voters() -> bool:
            if {voter.node_id for voter in self._admin.describe_quorum().voters} == wanted:
                return True
            # The answer to an earlier try may have been lost; who votes is what counts.
            with suppress(ClientError):
                self._admin.run(change)
            return False

        self._until(has_voters)

    def _change(self) -> None:
        """Changes settings, so many that a snapshot is due, until that is acknowledged."""
        self._changes += 1
        names = [f"group-{self._changes}-{number}-of-{CHANGES}" for number in range(CHANGES)]
        change = AlterableConfig(
            name="consumer.session.timeout.ms", config_operation=0, value="50000"
        )
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=GROUP, resource_name=name, configs=[change])
                for name in names
            ]
        )

        def is_changed() -> bool:
            leader = self.nodes[self._admin.describe_quorum().leader_id]
            with RawClient(leader.address) as client:
                client.socket.settimeout(5)
                answer = client.ask(request, ALTER_VERSION)
            return {one.error_code for one in answer.responses} == {0}

        self._until(is_changed)
        self._promised += names

    def _described(self) -> QuorumDescription:
        found: list[QuorumDescription] = []

        def is_led() -> bool:
            found.append(self._admin.describe_quorum())
            return found[-1].leader_id in self.nodes

        self._until(is_led)
        return found[-1]

    # --- what must be so

    def _settle(self) -> None:
        self._until(self._is_settled)

    def _is_settled(self) -> bool:
        """All nodes vote with the disks that they have, and have everything."""
        if any(node.process is None for node in self.nodes.values()):
            return False
        found = self._admin.describe_quorum()
        voters = {voter.node_id: voter.directory_id for voter in found.voters}
        wanted = {node.id: node.directory_id for node in self.nodes.values()}
        return voters == wanted and len({voter.log_end_offset for voter in found.voters}) == 1

    def _check_promises(self) -> None:
        longest = max((batches(node.data_dir) for node in self.nodes.values()), key=len)
        text = b"".join(longest.values())
        lost = [name for name in self._promised if name.encode() not in text]
        assert not lost, f"lost: {lost}"
