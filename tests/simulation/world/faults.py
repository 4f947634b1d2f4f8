"""What goes wrong in the world, chosen by the seed, within what a cluster has to survive.

A fault begins, lasts a while and is healed; several may be in force at once. Which of them are
allowed is a question of what was promised. Cuts may come as they like, and kills while no copy is
lost. A power cut may lose what was acknowledged on one copy, so that without group commit a node
without replicas has none, and of several nodes one at a time (`copies`). The same holds for a disk
that lies about syncs, and for sectors that are damaged while the node is down: both lose what one
copy had, of the data and not of the quorum's log. With group commit all nodes may lose what they
had not synced at once.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from kaa.log.sim_files import Fault
from tests.simulation.world.kinds import STORE_KINDS
from tests.simulation.world.processes import DATA
from tests.simulation.world.voters import can_spare
from tests.simulation.world.workload import PARTITIONS, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from kaa.log.sim_files import CrashMode, Operation
    from tests.simulation.world.copies import Copies
    from tests.simulation.world.kernel import Kernel
    from tests.simulation.world.kinds import Kind
    from tests.simulation.world.network import SimNetwork
    from tests.simulation.world.processes import Node
    from tests.simulation.world.store import SimStore

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
    "disk replaced",
    *STORE_KINDS,
}
# By these the chosen node ends uncleanly, at once or sooner or later.
_ENDING = {
    "kill",
    "power cut",
    "crash in the middle of a write",
    "disk error",
    "lost fsync",
    "corrupted sector",
    "full disk",
}
_ENDING_ALL = {"kill of all", "power cut of all"}


class Faults:
    """Begins faults at times of the seed until told to stop; `heal` ends what is in force."""

    def __init__(
        self,
        kernel: Kernel,
        network: SimNetwork,
        nodes: list[Node],
        copies: Copies,
        clients: Callable[[], list[str]],
        kill_client: Callable[[], None],
        double_client: Callable[[], None],
        *,
        kinds: tuple[Kind, ...],
        budget: int,
        crash_modes: tuple[CrashMode, ...],
        has_group_commit: bool,
        store: SimStore | None = None,
    ) -> None:
        self._kernel = kernel
        self._network = network
        self._nodes = nodes
        self._copies = copies
        self._clients = clients
        self._kill_client = kill_client
        self._double_client = double_client
        self._kinds = kinds
        self._left = budget
        self._crash_modes = crash_modes
        self._has_group_commit = has_group_commit
        self._store = store
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
        self.start(kind, self._random.choice(self._nodes))
        self._kernel.after(self._random.expovariate(1 / 4), self._next)

    def start(self, kind: Kind, node: Node) -> None:
        """Begins a fault, unless it is too much now."""
        if (not node.is_ready and kind not in _ALWAYS) or not self._may_start(kind, node):
            return
        self.counts[kind] += 1
        mode = self._random.choice(self._crash_modes)
        if mode != "kill" and not self._may_lose_unsynced(node):
            mode = "kill"
        match kind:
            case "kill":
                self._crash(node, "kill")
                self._last(0.1, 5, kind, lambda: self._boot(node))
            case "power cut":
                self._crash(node, mode)
                self._last(0.5, 8, kind, lambda: self._boot(node))
            case "crash in the middle of a write":
                self._copies.doom(node, has_lost=self._loses(mode))
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
                # A broker refuses records that are more than an hour ahead of it, for good reason.
                jumped_ms = node.clock.jump_ms + self._random.choice((-HOUR_MS, HOUR_MS, -500, 500))
                node.clock.jump_ms = max(-HOUR_MS, min(HOUR_MS, jumped_ms))
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
                self._fail(node)
                self._last(1, 6, f"full disk of {node.name}", lambda: self._repair(node))
            case "rolling restart":
                self._roll(list(self._nodes))
            case "disk replaced":
                self._replace_disk()
            case _:
                self._fail_store(kind)

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

    def is_whole(self) -> bool:
        """Whether all nodes serve and every partition has all its replicas in sync."""
        return all(
            node.broker is not None
            and all(
                len(partition.isr) == len(partition.image.replicas)
                for partition in node.broker.services.replicas._partitions.values()
            )
            for node in self._nodes
            if node.is_broker
        )

    # --- what was promised

    def _may_start(self, kind: Kind, node: Node) -> bool:
        """Whether those who end by it may end now."""
        ending = self._nodes if kind in _ENDING_ALL else [node] if kind in _ENDING else []
        return all(self._copies.may_end(each) for each in ending)

    def _may_lose_unsynced(self, node: Node) -> bool:
        if node.name in self._lying:
            return False
        return self._has_group_commit or self._copies.may_lose(node)

    def _loses(self, mode: CrashMode) -> bool:
        """Whether what is acknowledged is lost by it; not by a disk that lies."""
        return mode != "kill" and not self._has_group_commit

    # --- single faults

    def _crash(self, node: Node, mode: CrashMode, *, has_lost: bool = False) -> None:
        self._copies.ended(node, has_lost=has_lost or self._loses(mode))
        node.crash(mode)

    def _crash_all(self, kind: Kind, mode: CrashMode) -> None:
        for node in self._nodes:
            self._crash(node, mode)
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
        self._copies.spare(node)
        self._crash(node, mode)
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
        self._fail(node)
        self._last(1, 6, f"{operation} error of {node.name}", lambda: self._repair(node))

    def _fail(self, node: Node) -> None:
        """Its disk fails until it is repaired, and then it is started again in any case."""
        self.failing[node.name] = None
        self._copies.doom(node)

    def _lose_syncs(self, node: Node) -> None:
        """Nothing that is synced reaches the disk; then the power goes, if others have it all."""
        if len(self._nodes) == 1 or self._copies.is_doomed(node):
            # A crash that is on its way would take what was synced in vain.
            return
        node.files.loses_sync = lambda path: METADATA_FOLDER not in path
        self._lying[node.name] = None
        self._copies.doom(node)

        def heal() -> None:
            self._copies.spare(node)
            is_lost = node.is_ready and self._copies.may_lose(node)
            self._lying.pop(node.name, None)
            self._kernel.say(node.name, f"lied about syncs, {'in vain' if is_lost else 'unseen'}")
            if node.is_up:
                self._crash(node, "lost" if is_lost else "kill", has_lost=is_lost)
                self._boot(node)

        self._last(1, 8, f"lost fsync of {node.name}", heal)

    def _corrupt(self, node: Node) -> None:
        """Damages what a recovery has to read: the end of a log that was never flushed."""
        folder = f"{DATA}/{TOPIC}-{self._random.randrange(PARTITIONS)}"
        if len(self._nodes) == 1 or not self._copies.may_lose(node):
            return
        self._crash(node, "kill", has_lost=not self._has_group_commit)
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

    def _fail_store(self, kind: Kind) -> None:
        store = self._store
        assert store is not None, "there is nothing tiered"
        store.faults[kind] += 1
        if kind == "store slow":
            store.slowness = self._random.choice((10.0, 100.0, 300.0))

        def heal() -> None:
            store.faults[kind] -= 1
            if not store.faults["store slow"]:
                store.slowness = 1.0

        self._last(1, 8, kind, heal)

    def _replace_disk(self) -> None:
        """A controller loses its disk, where the others can do without its vote."""
        controllers = [node for node in self._nodes if not node.is_broker]
        spare = [node for node in controllers if can_spare(self._nodes, node)]
        if spare:
            node = self._random.choice(spare)
            self._copies.ended(node)
            node.lose_disk()
            self._last(0.5, 5, f"new disk of {node.name}", lambda: self._boot(node))

    def _repair(self, node: Node) -> None:
        node.files.faults.clear()
        node.files.capacity_bytes = None
        self._copies.spare(node)
        self._crash(node, "kill")
        self._boot(node)
