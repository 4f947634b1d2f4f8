"""What goes wrong in the world, chosen by the seed, within what a cluster has to survive.

A fault begins, lasts a while and is healed; several may be in force at once. Which of them are
allowed is a question of what was promised. Kills and cuts may come as they like. A power cut may
lose what was acknowledged on one copy, so that without group commit a node without replicas has
none, and of several nodes one at a time: the next comes when every partition has all its replicas
in sync again. The same holds for a disk that lies about syncs, and for sectors that are damaged
while the node is down: both lose what one copy had, of the data and not of the quorum's log. With
group commit all nodes may lose what they had not synced at once.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from kaa.log.sim_files import Fault
from tests.simulation.world.processes import DATA
from tests.simulation.world.workload import PARTITIONS, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from kaa.log.sim_files import CrashMode, Operation
    from tests.simulation.world.kernel import Kernel
    from tests.simulation.world.kinds import Kind
    from tests.simulation.world.network import SimNetwork
    from tests.simulation.world.processes import Node

HOUR_MS = 3_600_000
METADATA_FOLDER = "__cluster_metadata"


# These do not need the chosen node to serve.
_ALWAYS = {
    "client killed",
    "client doubled",
    "reset",
    "cut",
    "one-way cut",
    "isolation",
    "kill of all",
    "power cut of all",
}


class Faults:
    """Begins faults at times of the seed until told to stop; `heal` ends what is in force."""

    def __init__(
        self,
        kernel: Kernel,
        network: SimNetwork,
        nodes: list[Node],
        clients: Callable[[], list[str]],
        kill_client: Callable[[], None],
        double_client: Callable[[], None],
        *,
        kinds: tuple[Kind, ...],
        budget: int,
        crash_modes: tuple[CrashMode, ...],
        has_group_commit: bool,
    ) -> None:
        self._kernel = kernel
        self._network = network
        self._nodes = nodes
        self._clients = clients
        self._kill_client = kill_client
        self._double_client = double_client
        self._kinds = kinds
        self._left = budget
        self._crash_modes = crash_modes
        self._has_group_commit = has_group_commit
        # A node has lost what it had not synced, and may not have it again yet.
        self._has_lost = False
        # Nodes whose disks lie about syncs.
        self._lying: dict[str, None] = {}
        self._heals: dict[int, Callable[[], None]] = {}
        self.is_over = False
        self.counts: Counter[str] = Counter()
        # Nodes whose disk fails: such a node may end by itself.
        self.failing: dict[str, None] = {}

    @property
    def _random(self) -> Random:
        return self._kernel.random

    def begin(self) -> None:
        self._kernel.after(self._random.uniform(0.5, 4), self._next)

    def _next(self) -> None:
        if self.is_over or not self._left:
            return
        self._left -= 1
        kind = self._random.choice(self._kinds)
        self._start(kind)
        self._kernel.after(self._random.expovariate(1 / 4), self._next)

    def _start(self, kind: Kind) -> None:
        node = self._random.choice(self._nodes)
        if not node.is_ready and kind not in _ALWAYS:
            return
        self.counts[kind] += 1
        mode = self._random.choice(self._crash_modes)
        if mode != "kill" and (node.name in self._lying or not self._may_lose()):
            mode = "kill"
        match kind:
            case "kill":
                node.crash("kill")
                self._last(0.1, 5, kind, lambda: self._boot(node))
            case "power cut":
                node.crash(mode)
                self._last(0.5, 8, kind, lambda: self._boot(node))
            case "crash in the middle of a write":
                node.crash_within(self._random.randrange(40), mode)
                self._last(1, 8, kind, lambda: self._crash_and_boot(node, mode))
            case "restart":
                node.begin_stop()
                self._last(5, 30, kind, lambda: self._boot(node))
            case "pause":
                self._pause(node)
            case "cut" | "one-way cut":
                self._cut(node, kind)
            case "slow link":
                self._slow(node)
            case "reset":
                for _ in range(self._random.randint(1, 5)):
                    self._network.reset_one()
            case "slow disk":
                node.disk_slowness = self._random.choice((10.0, 100.0, 500.0))
                self._last(1, 8, kind, lambda: setattr(node, "disk_slowness", 1.0))
            case "clock jump":
                node.clock.jump_ms += self._random.choice((-HOUR_MS, HOUR_MS, -500, 500))
                self._kernel.say(node.name, f"clock jumps to {node.clock.jump_ms} ms off")
            case "disk error":
                self._disk_error(node)
            case "client killed":
                self._kill_client()
            case "isolation":
                self._isolate(node)
            case "kill of all":
                self._crash_all(kind, "kill")
            case "power cut of all":
                # Only where everything that is acknowledged was synced.
                is_lost = self._has_group_commit and not self._lying
                self._crash_all(kind, "lost" if is_lost else "kill")
            case "client doubled":
                self._double_client()
            case "lost fsync":
                self._lose_syncs(node)
            case "corrupted sector":
                self._corrupt(node)
            case "full disk":
                node.files.capacity_bytes = node.files.used_bytes() + self._random.randrange(20_000)
                self.failing[node.name] = None
                self._last(1, 6, f"full disk of {node.name}", lambda: self._repair(node))
            case "rolling restart":
                self._roll(list(self._nodes))

    def _last(self, low: float, high: float, what: str, heal: Callable[[], None]) -> None:
        """Heals after a while, or earlier when all is healed."""
        number = self._kernel.number()
        self._heals[number] = heal
        seconds = self._random.uniform(low, high)
        self._kernel.say("faults", f"{what} for {seconds:.3f} s")
        self._kernel.after(seconds, self._heal_one, number)

    def _heal_one(self, number: int) -> None:
        heal = self._heals.pop(number, None)
        if heal is not None:
            heal()

    def heal(self) -> None:
        """Ends the faults: from now on everything works."""
        self.is_over = True
        self._kernel.say("faults", "everything is healed")
        for number in tuple(self._heals):
            self._heal_one(number)

    def _may_lose(self) -> bool:
        """Whether what one node has not synced may be lost now."""
        if self._has_group_commit or self.is_whole():
            self._has_lost = False
        may, self._has_lost = not self._has_lost, True
        return may

    def is_whole(self) -> bool:
        """Whether all nodes serve and every partition has all its replicas in sync."""
        return all(
            node.broker is not None
            and all(
                len(partition.isr) == len(partition.image.replicas)
                for partition in node.broker.services.replicas._partitions.values()
            )
            for node in self._nodes
        )

    # --- single faults

    def _crash_all(self, kind: Kind, mode: CrashMode) -> None:
        if self._has_lost and not self._has_group_commit and not self.is_whole():
            # Nobody would be known to have everything: one has lost it, the others ended uncleanly.
            return
        for node in self._nodes:
            node.crash(mode)
            self._last(0.1, 5, kind, partial(self._boot, node))

    def _boot(self, node: Node) -> None:
        if not node.is_up:
            if node.files.capacity_bytes is None and not node.files.faults:
                self.failing.pop(node.name, None)
            node.boot()
        elif not node.is_ready or node.is_stopping:
            # It is still on its way down, perhaps paused at the first step of it, or up.
            self._kernel.after(0.5, self._boot, node)

    def _crash_and_boot(self, node: Node, mode: CrashMode) -> None:
        node.files.crash_at = None
        if node.files.dead or not node.is_up:
            self._boot(node)
            return
        node.crash(mode)
        self._boot(node)

    def _pause(self, node: Node) -> None:
        assert node.loop is not None
        seconds = self._random.choice((0.2, 1.0, 5.0, 15.0)) * self._random.random()
        node.loop.pause(seconds)
        self._kernel.say(node.name, f"is paused for {seconds:.3f} s")

    def _cut(self, node: Node, kind: Kind) -> None:
        others = [other.name for other in self._nodes if other is not node] + self._clients()
        other = self._random.choice(others)
        ways = [(node.name, other), (other, node.name)]
        if kind == "one-way cut":
            ways = [self._random.choice(ways)]
        for way in ways:
            self._network.cut(*way)

        def heal() -> None:
            for way in ways:
                self._network.heal(*way)

        self._last(0.5, 12, f"{kind} {ways}", heal)

    def _isolate(self, node: Node) -> None:
        """Nobody of the cluster reaches the node; clients do."""
        ways = [
            way
            for other in self._nodes
            if other is not node
            for way in ((node.name, other.name), (other.name, node.name))
        ]
        for way in ways:
            self._network.cut(*way)

        def heal() -> None:
            for way in ways:
                self._network.heal(*way)

        self._last(1, 20, f"isolation of {node.name}", heal)

    def _slow(self, node: Node) -> None:
        others = [other.name for other in self._nodes if other is not node] + self._clients()
        way = (self._random.choice(others), node.name)
        if self._random.random() < 0.5:
            way = (way[1], way[0])
        self._network.slow_down(*way, self._random.choice((0.05, 0.5, 3.0)))
        self._last(1, 10, f"slow link {way}", lambda: self._network.speed_up(*way))

    def _disk_error(self, node: Node) -> None:
        operations: tuple[Operation, ...] = ("write", "sync", "rename", "create")
        operation = self._random.choice(operations)
        fault = Fault(operation, "/data", skip=self._random.randrange(20), times=1)
        node.files.faults.append(fault)
        self.failing[node.name] = None
        self._last(1, 6, f"{operation} error of {node.name}", lambda: self._repair(node))

    def _lose_syncs(self, node: Node) -> None:
        """Nothing that is synced reaches the disk; then the power goes, if others have it all."""
        if len(self._nodes) == 1:
            return
        node.files.loses_sync = lambda path: METADATA_FOLDER not in path
        self._lying[node.name] = None

        def heal() -> None:
            is_lost = node.is_ready and self.is_whole() and self._may_lose()
            self._lying.pop(node.name, None)
            self._kernel.say(node.name, f"lied about syncs, {'in vain' if is_lost else 'unseen'}")
            if node.is_up:
                node.crash("lost" if is_lost else "kill")
                self._boot(node)

        self._last(1, 8, f"lost fsync of {node.name}", heal)

    def _corrupt(self, node: Node) -> None:
        """Damages what a recovery has to read: the end of a log that was never flushed."""
        folder = f"{DATA}/{TOPIC}-{self._random.randrange(PARTITIONS)}"
        if len(self._nodes) == 1 or not self.is_whole() or not self._may_lose():
            return
        node.crash("kill")
        files = node.files
        names = files.list_directory(folder) if files.exists(folder) else []
        logs = [name for name in names if name.endswith(".log")]
        kind = self._random.choice((".log", ".index", ".timeindex"))
        path = f"{folder}/{logs[-1].removesuffix('.log')}{kind}" if logs else ""
        has_unflushed = not self._has_group_commit and len(logs) == 1 and node.boots == 1
        if path and files.size(path) and (kind != ".log" or has_unflushed):
            position = self._random.randrange(files.size(path))
            files.flip_bits(path, position)
            self._kernel.say(node.name, f"byte {position} of {path} is damaged")
        self._last(0.1, 5, "corrupted sector", lambda: self._boot(node))

    def _roll(self, left: list[Node]) -> None:
        """Restarts one node after the other, each when the one before it serves again."""
        if self.is_over or not left:
            return
        node = left[0]
        if not all(other.is_ready for other in self._nodes):
            self._kernel.after(0.5, self._roll, left)
            return
        node.begin_stop()
        self._last(2, 6, f"rolling restart of {node.name}", lambda: self._boot(node))
        self._kernel.after(7, self._roll, left[1:])

    def _repair(self, node: Node) -> None:
        node.files.faults.clear()
        node.files.capacity_bytes = None
        if node.is_up:
            node.crash("kill")
        self._boot(node)
