"""What goes wrong with a cluster of `machines`, drawn from a seed, within what it has to survive.

A round begins one fault, sometimes two on different nodes, lets them last and heals them; mostly
the next round waits until all is in sync again. What one copy may lose (a power cut, a full disk)
comes alone, and only when all replicas are in sync: more than that no setting with three replicas
survives.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from enum import Enum
from random import Random
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, NamedTuple

from tests.chaos.machines import clock_library
from tests.chaos.network import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.machines import Machines

# Shorter and longer than the session of a broker and the timeouts of the quorum.
SECONDS_MIN, SECONDS_MAX = 0.5, 9.0
QUIET_SECONDS = (1.0, 5.0)
TWO_AT_A_TIME = 0.3
IN_SYNC_BEFORE = 0.7
KILOBITS = (64, 512, 4096)
CLOCK_SECONDS = (-3600, -30, 30, 3600)

Heal = Callable[[], None]


class Fault(Enum):
    KILL = "kill"
    KILL_ALL = "kill of all"
    STOP = "clean stop"
    PAUSE = "pause"
    CUT = "cut"
    ONE_WAY_CUT = "one-way cut"
    ISOLATION = "isolation"
    SLOW_LINK = "slow link"
    CLOCK_JUMP = "clock jump"
    FULL_DISK = "full disk"
    POWER_CUT = "power cut"


# These happen to a cluster that is whole, and to nothing else at the same time.
_ALONE = {Fault.KILL_ALL, Fault.FULL_DISK, Fault.POWER_CUT}


class Span(NamedTuple):
    """A fault, and when it was in force, in seconds since the beginning."""

    fault: Fault
    node_id: int
    began: float
    ended: float


def possible() -> list[Fault]:
    """What can be done here."""
    return [fault for fault in Fault if fault is not Fault.CLOCK_JUMP or clock_library()]


class Faults:
    """Call `next` again and again."""

    def __init__(self, machines: Machines, seed: int, kinds: Sequence[Fault]) -> None:
        self._machines = machines
        self._random = Random(seed)
        self._kinds = list(kinds)
        self._unused: list[Fault] = []
        self._began = time.monotonic()
        self.happened: list[Span] = []
        self.problems: list[str] = []

    def now(self) -> float:
        return time.monotonic() - self._began

    def next(self) -> None:
        random, machines = self._random, self._machines
        _wait(random.uniform(*QUIET_SECONDS))
        chosen = [(self._draw(), random.choice(machines.ids))]
        if chosen[0][0] not in _ALONE and random.random() < TWO_AT_A_TIME:
            other = random.choice([one for one in machines.ids if one != chosen[0][1]])
            second = self._draw()
            if second in _ALONE:
                self._unused.append(second)
            else:
                chosen.append((second, other))
        needs_sync = random.random() < IN_SYNC_BEFORE or chosen[0][0] in _ALONE
        if needs_sync and not machines.until_in_sync():
            self.problems.append(f"replicas were not in sync at {self.now():.0f} s")
            return
        began, heals = self.now(), []
        for fault, node_id in chosen:
            heals.append(self._begin(fault, node_id))
        _wait(random.uniform(SECONDS_MIN, SECONDS_MAX))
        for heal in reversed(heals):
            heal()
        self.happened += [Span(fault, node_id, began, self.now()) for fault, node_id in chosen]
        self._look()

    def _draw(self) -> Fault:
        """Each kind as often as the others, in an order of the seed."""
        if not self._unused:
            self._unused = self._kinds.copy()
            self._random.shuffle(self._unused)
        return self._unused.pop()

    def _look(self) -> None:
        for text in self._machines.complaints():
            self.problems.append(f"{self.now():.0f} s: {text}")
        for node in self._machines.nodes.values():
            if node.has_ended():
                node.kill()
                node.launch()

    # --- single faults: each begins one and gives what heals it

    def _begin(self, fault: Fault, node_id: int) -> Heal:
        return {
            Fault.KILL: self._kill,
            Fault.KILL_ALL: self._kill_all,
            Fault.STOP: self._stop,
            Fault.PAUSE: self._pause,
            Fault.CUT: self._cut,
            Fault.ONE_WAY_CUT: self._cut_one_way,
            Fault.ISOLATION: self._isolate,
            Fault.SLOW_LINK: self._slow,
            Fault.CLOCK_JUMP: self._jump,
            Fault.FULL_DISK: self._fill,
            Fault.POWER_CUT: self._cut_power,
        }[fault](node_id)

    def _kill(self, node_id: int) -> Heal:
        node = self._machines.nodes[node_id]
        node.kill()
        return node.launch

    def _kill_all(self, _: int) -> Heal:
        nodes = list(self._machines.nodes.values())
        for node in nodes:
            node.kill()

        def heal() -> None:
            for node in nodes:
                node.launch()

        return heal

    def _stop(self, node_id: int) -> Heal:
        """In the background: a node that is cut off stops only when it is healed."""
        node = self._machines.nodes[node_id]

        def stop() -> None:
            try:
                node.stop()
            except (AssertionError, TimeoutExpired) as problem:
                self.problems.append(f"{self.now():.0f} s: node {node_id} did not stop: {problem}")
                node.kill()

        stopping = threading.Thread(target=stop)
        stopping.start()

        def heal() -> None:
            stopping.join()
            node.launch()

        return heal

    def _pause(self, node_id: int) -> Heal:
        node = self._machines.nodes[node_id]
        node.signal(signal.SIGSTOP)
        return lambda: node.signal(signal.SIGCONT)

    def _cut(self, node_id: int) -> Heal:
        other = self._other(node_id)
        return self._cut_ways([(node_id, other), (other, node_id)])

    def _cut_one_way(self, node_id: int) -> Heal:
        """One node no longer reaches another, or no other."""
        others = [one for one in self._machines.ids if one != node_id]
        if self._random.random() < 0.5:
            others = [self._other(node_id)]
        ways = [(node_id, other) for other in others]
        if self._random.random() < 0.5:
            ways = [(other, node) for node, other in ways]
        return self._cut_ways(ways)

    def _isolate(self, node_id: int) -> Heal:
        """Nobody reaches the node; half of the time clients still do."""
        others = [one for one in self._machines.ids if one != node_id]
        if self._random.random() < 0.5:
            others.append(OUTSIDE)
        return self._cut_ways(
            [way for other in others for way in ((node_id, other), (other, node_id))]
        )

    def _other(self, node_id: int) -> int:
        return self._random.choice([one for one in self._machines.ids if one != node_id])

    def _cut_ways(self, ways: list[tuple[int, int]]) -> Heal:
        network = self._machines.network
        for way in ways:
            network.cut(*way)

        def heal() -> None:
            for way in ways:
                network.heal(*way)

        return heal

    def _slow(self, node_id: int) -> Heal:
        network = self._machines.network
        network.slow_down(node_id, self._random.choice(KILOBITS))
        return lambda: network.speed_up(node_id)

    def _jump(self, node_id: int) -> Heal:
        node = self._machines.nodes[node_id]
        node.set_clock(self._random.choice(CLOCK_SECONDS))
        return lambda: node.set_clock(0)

    def _fill(self, node_id: int) -> Heal:
        """The node may end by itself; a broker soon has something to write."""
        node = self._machines.nodes[node_id]
        node.disk.fill()

        def heal() -> None:
            # Whatever is left of it has a directory that is offline.
            node.kill()
            node.disk.make_room()
            node.launch()

        return heal

    def _cut_power(self, node_id: int) -> Heal:
        node = self._machines.nodes[node_id]
        node.kill()
        node.disk.cut_power()
        return node.launch


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
