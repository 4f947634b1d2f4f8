"""A disk runs full below one controller of three: it says so and ends, and the quorum goes on.

First the leader meets it, later a follower. With room on its disk again, a start is all that is
needed. Each node has a file system of its own where this user may mount one; elsewhere writes below
its folder fail as on a full one (`disk_hook`).
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from kaa.cli.broker import EXIT_FAILED
from kaa.cli.supervisor import format_cluster, plan_cluster
from kaa.client.admin.admin import NewTopic
from kaa.client.admin.quorum import QuorumDescription
from kaa.client.errors import ClientError
from kaa.client.sync import Admin
from tests.oracle.environment import wait_until
from tests.process.syscall_kills import ROOT
from tests.support.broker_process import BrokerProcess
from tests.support.metadata_logs import check_one_log
from tests.support.pace import PATIENCE_SECONDS
from tests.support.ports import free_cluster_port

SIZE = "24m"
COUNT = 3
SETTINGS = (
    "controller.quorum.election.timeout.ms=500",
    "controller.quorum.fetch.timeout.ms=1000",
    "metadata.log.max.record.bytes.between.snapshots=2000",
    "offsets.topic.num.partitions=1",
    # A broker that comes back is taken when the session of its last life has ended.
    "broker.session.timeout.ms=3000",
    "broker.heartbeat.interval.ms=500",
)
WRITES = ("pwritev", "pwrite", "write", "writev")


class SmallDisk:
    """What is below a folder; `is_real` if it has a file system of its own."""

    def __init__(self, place: Path, is_real: bool) -> None:
        self.place = place
        self.is_real = is_real
        self._filler = place / "filler" if is_real else place.with_name(f"{place.name}-full")

    @property
    def preamble(self) -> str:
        """What a node on it runs before it starts."""
        if self.is_real:
            return ""
        hook = f"{str(self.place)!r}, {WRITES!r}, {errno.ENOSPC}, {str(self._filler)!r}"
        return (
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
            f"from tests.process.disk_hook import install; install({hook})"
        )

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as filler:
            if self.is_real:
                with suppress(OSError):
                    while True:
                        filler.write(bytes(os.sysconf("SC_PAGE_SIZE")))

    def make_room(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(place: Path) -> Iterator[SmallDisk]:
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    is_real = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield SmallDisk(place, is_real)
    finally:
        if is_real:
            # Lazily: a process that was killed a moment ago may still hold its files.
            subprocess.run(["umount", "-l", str(place)], capture_output=True, check=True)


class Quorum:
    """Three controllers, each a broker too and on a disk of its own."""

    def __init__(self, folder: Path, cleanup: ExitStack) -> None:
        plans = plan_cluster(folder, COUNT, free_cluster_port(COUNT), SETTINGS)
        self.disks = {
            plan.node_id: cleanup.enter_context(small_disk(plan.folder)) for plan in plans
        }
        assert format_cluster(plans, 0)
        self.nodes = {
            plan.node_id: BrokerProcess(
                folder / f"run-{plan.node_id}", *plan.overrides, port=plan.port
            )
            for plan in plans
        }
        self._topics = 0
        for plan, (node_id, node) in zip(plans, self.nodes.items(), strict=True):
            node.data_dir = plan.folder
            node.preamble = self.disks[node_id].preamble
            cleanup.callback(node.kill)
            node.launch()

    @property
    def servers(self) -> str:
        running = [node for node in self.nodes.values() if node.process is not None]
        return ",".join(node.bootstrap_servers for node in running)

    def admin(self) -> Admin:
        return Admin({"bootstrap.servers": self.servers, "default.api.timeout.ms": "5000"})

    def described(self) -> QuorumDescription | None:
        with suppress(ClientError), self.admin() as admin:
            return admin.describe_quorum()
        return None

    def leader(self) -> int:
        """Who leads, once somebody that runs does."""
        found: list[int] = []

        def is_led() -> bool:
            described = self.described()
            if described is not None and described.leader_id in self.nodes:
                found.append(described.leader_id)
            return bool(found) and self.nodes[found[-1]].process is not None

        assert wait_until(is_led, PATIENCE_SECONDS)
        return found[-1]

    def changes(self) -> bool:
        """Whether a topic more can be created now."""
        self._topics += 1
        name = f"topic-{self._topics}"
        with suppress(ClientError), self.admin() as admin:
            return admin.create_topics([NewTopic(name, 1, 1)]) == {name: None}
        return False

    def has_all(self) -> bool:
        """Whether all three vote and none of them lags."""
        described = self.described()
        if described is None:
            return False
        ends = {voter.node_id: voter.log_end_offset for voter in described.voters}
        return ends.keys() == self.nodes.keys() and len(set(ends.values())) == 1

    def check_equal(self) -> None:
        for node in self.nodes.values():
            node.kill()
        check_one_log(node.data_dir for node in self.nodes.values())

    # --- the fault

    def fill(self, node_id: int) -> None:
        """Fills a disk and makes changes until its node has ended by itself."""
        node = self.nodes[node_id]
        self.disks[node_id].fill()

        def has_ended() -> bool:
            self.changes()
            return node.process is not None and node.process.poll() is not None

        assert wait_until(has_ended, PATIENCE_SECONDS), node.output
        self.check_last_words(node)

    def check_last_words(self, node: BrokerProcess) -> None:
        assert node.end() == EXIT_FAILED
        said = node.output
        assert str(node.data_dir) in said
        assert os.strerror(errno.ENOSPC) in said
        # Nothing but what went wrong.
        assert not re.search("Traceback|Runtime(Error|Warning)", said), said

    def heal(self, node_id: int) -> None:
        """Starts a node in vain, makes room on its disk, and starts it again."""
        node = self.nodes[node_id]
        node.launch()
        self.check_last_words(node)
        self.disks[node_id].make_room()
        node.start()
        assert wait_until(lambda: self.changes() and self.has_all(), PATIENCE_SECONDS)


@pytest.mark.slow
def test_a_quorum_goes_on_without_the_controller_whose_disk_is_full(tmp_path: Path) -> None:
    with ExitStack() as cleanup:
        quorum = Quorum(tmp_path, cleanup)
        assert wait_until(lambda: quorum.changes() and quorum.has_all(), PATIENCE_SECONDS)
        first = quorum.leader()
        quorum.fill(first)
        assert wait_until(quorum.changes, PATIENCE_SECONDS)
        leader = quorum.leader()
        assert leader != first
        quorum.heal(first)
        follower = next(each for each in quorum.nodes if each != quorum.leader())
        quorum.fill(follower)
        assert wait_until(quorum.changes, PATIENCE_SECONDS)
        quorum.heal(follower)
        quorum.check_equal()
