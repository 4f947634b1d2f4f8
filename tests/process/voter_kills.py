"""A voter killed at the Nth system call that changes files, while voters change and leaders go.

Three nodes vote. One of them kills itself at call N of a kind (`kill_hook`), wherever in the story
that is: on its way up, in an election, in a change of the voters, as the leader or not. The story
takes the vote of another node away and gives it back, kills the leader, and removes the next leader
itself; a node that is found dead is started again. Afterwards all nodes must name the same three
voters, take a change, and have one metadata log on their disks as far as each of them goes.
"""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kaa.cli.supervisor import CONTROLLER_PORT_DISTANCE, HOST, format_cluster, plan_cluster
from kaa.client.admin.admin import NewTopic
from kaa.client.errors import ClientError
from kaa.client.sync import Admin
from kaa.model.nodes import Endpoint
from kaa.records.batch import LOG_OVERHEAD, LOG_OVERHEAD_BYTES
from kaa.wire.primitives import Uuid
from tests.oracle.environment import wait_until
from tests.process.syscall_kills import ROOT
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_cluster_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kaa.client.admin.quorum import QuorumDescription

COUNT = 3
PATIENCE_SECONDS = 240
SETTINGS = (
    "controller.quorum.election.timeout.ms=500",
    "controller.quorum.fetch.timeout.ms=1000",
    "metadata.log.max.record.bytes.between.snapshots=2000",
    "offsets.topic.num.partitions=1",
)


class Point(NamedTuple):
    """Where which node dies."""

    kind: str
    number: int
    victim: int


class Voter(BrokerProcess):
    """One node over its lives; only the first may have a point to die at."""

    def __init__(self, node_id: int, folder: Path, port: int, overrides: tuple[str, ...]) -> None:
        super().__init__(folder.with_name(f"run-{node_id}"), *overrides, port=port)
        self.id = node_id
        self.data_dir = folder
        self.was_killed = False
        text = (folder / "meta.properties").read_text()
        (found,) = re.findall(r"^directory.id=(.+)$", text, re.MULTILINE)
        self.directory_id = Uuid.parse(found)

    def die_at(self, point: Point) -> None:
        arguments = f"{point.kind!r}, {point.number}, {str(self.folder / 'counts')!r}"
        self.preamble = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
            f"from tests.process.kill_hook import install; install({arguments})"
        )

    def revive(self) -> None:
        """Starts it again if it is dead, and has died by its point."""
        process = self.process
        if process is None or process.poll() is None:
            return
        assert process.returncode == -signal.SIGKILL, self.output
        assert not self.was_killed, "it died twice"
        self.was_killed = True
        self._forget(process)
        self.preamble = ""
        self.launch()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("CONTROLLER", HOST, self.port + CONTROLLER_PORT_DISTANCE)

    @property
    def batches(self) -> dict[int, bytes]:
        """The metadata log by base offset. A node that was sent a snapshot begins after it."""
        place = self.data_dir / "__cluster_metadata-0"
        data = b"".join(path.read_bytes() for path in sorted(place.glob("*.log")))
        found, position = {}, 0
        while len(data) - position >= LOG_OVERHEAD_BYTES:
            base_offset, size = LOG_OVERHEAD.unpack_from(data, position)
            end = position + LOG_OVERHEAD_BYTES + size
            found[base_offset] = data[position:end]
            position = end
        return found


def check_one_log(nodes: Iterable[Voter]) -> None:
    """The metadata logs of nodes that were killed are equal, as far as all of them go."""
    logs = [node.batches for node in nodes]
    first, last = max(map(min, logs)), min(map(max, logs))
    assert first < last
    common = [{base: batch for base, batch in log.items() if first <= base < last} for log in logs]
    assert common == [common[0]] * len(logs), "the metadata logs differ"


class VoterStory:
    """See the module's text. As a context; every process ends with it."""

    def __init__(self, folder: Path, point: Point) -> None:
        port = free_cluster_port(COUNT)
        plans = plan_cluster(folder, COUNT, port, SETTINGS)
        assert format_cluster(plans, 0)
        self.nodes = {
            plan.node_id: Voter(plan.node_id, plan.folder, plan.port, plan.overrides)
            for plan in plans
        }
        self.victim = self.nodes[point.victim]
        self.victim.die_at(point)

    def __enter__(self) -> Self:
        for node in self.nodes.values():
            node.launch()
        return self

    def __exit__(self, *exception: object) -> None:
        for node in self.nodes.values():
            node.kill()

    def tell(self) -> None:
        """The story; it ends with three voters that agree."""
        other = self.nodes[1 if self.victim.id != 1 else 2]
        self._until_voters({1, 2, 3})
        self._until_voters({1, 2, 3} - {other.id}, lambda admin: _remove(admin, other))
        self._until_voters({1, 2, 3}, lambda admin: _add(admin, other))
        leader = self.nodes[self._leader()]
        leader.kill()
        leader.preamble = ""
        self._until_voters({1, 2, 3})
        leader.launch()
        removed = self.nodes[self._leader()]
        self._until_voters({1, 2, 3} - {removed.id}, lambda admin: _remove(admin, removed))
        self._until_voters({1, 2, 3}, lambda admin: _add(admin, removed))

    def check(self) -> None:
        """All nodes serve, agree and take a change; their logs are one."""
        for node in self.nodes.values():
            self._until(partial(self._names, {1, 2, 3}, node.bootstrap_servers))
        self._until(self._creates)
        for node in self.nodes.values():
            node.kill()
        check_one_log(self.nodes.values())

    # --- steps

    def _until(self, is_so: Callable[[], bool]) -> None:
        """Tries again while nodes are on their way down or up."""

        def tried() -> bool:
            for node in self.nodes.values():
                node.revive()
            try:
                return is_so()
            except ClientError:
                return False

        assert wait_until(tried, PATIENCE_SECONDS), "it did not come to be so"

    def _until_voters(self, wanted: set[int], change: Callable[[Admin], Any] | None = None) -> None:
        def is_so() -> bool:
            if self._names(wanted, self._servers):
                return True
            if change is not None:
                # The answer to an earlier try may have been lost; who votes is what counts.
                with suppress(ClientError), self._admin(self._servers) as admin:
                    change(admin)
            return False

        self._until(is_so)

    def _names(self, wanted: set[int], servers: str) -> bool:
        return {voter.node_id for voter in self._quorum(servers).voters} == wanted

    def _leader(self) -> int:
        found: list[int] = []

        def is_so() -> bool:
            found.append(self._quorum(self._servers).leader_id)
            return self.nodes[found[-1]].process is not None if found[-1] in self.nodes else False

        self._until(is_so)
        return found[-1]

    def _quorum(self, servers: str) -> QuorumDescription:
        with self._admin(servers) as admin:
            return admin.describe_quorum()

    def _creates(self) -> bool:
        with self._admin(self._servers) as admin:
            outcome = admin.create_topics([NewTopic("after", 1, 3)])
            return outcome == {"after": None} or "after" in {t.name for t in admin.list_topics()}

    def _admin(self, servers: str) -> Admin:
        return Admin({"bootstrap.servers": servers, "default.api.timeout.ms": "5000"})

    @property
    def _servers(self) -> str:
        running = [node for node in self.nodes.values() if node.process is not None]
        return ",".join(node.bootstrap_servers for node in running)


def _add(admin: Admin, node: Voter) -> None:
    admin.run(lambda one: one.add_raft_voter(node.id, node.directory_id, [node.endpoint]))


def _remove(admin: Admin, node: Voter) -> None:
    admin.run(lambda one: one.remove_raft_voter(node.id, node.directory_id))


def told(folder: Path, point: Point) -> bool:
    """Runs one story; whether the victim met its point."""
    with VoterStory(folder, point) as story:
        story.tell()
        story.check()
        return story.victim.was_killed
