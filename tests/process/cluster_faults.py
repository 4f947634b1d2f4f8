"""What may happen to the nodes of a cluster while clients work on it, drawn from a seed."""

from __future__ import annotations

import threading
from enum import Enum
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.cluster_process import ClusterProcesses


class Fault(Enum):
    KILL = "a node is killed and starts again"
    KILL_ALL = "all nodes are killed and start again"
    PAUSE = "a node stands still for a while"
    STOP = "a node stops in peace and starts again"


class Faults:
    """One fault after the other; each has healed before the next."""

    def __init__(self, cluster: ClusterProcesses, seed: int, kinds: Sequence[Fault]) -> None:
        self._cluster = cluster
        self._random = Random(seed)
        self._kinds = kinds
        self._left: list[Fault] = []
        self.happened: list[tuple[Fault, int]] = []

    def next(self) -> None:
        random, nodes = self._random, self._cluster.nodes
        _wait(random.uniform(0.3, 3))
        if not self._left:
            # Each kind as often as the others.
            self._left = random.sample(self._kinds, len(self._kinds))
        kind, node_id = self._left.pop(), random.choice(sorted(nodes))
        self.happened.append((kind, node_id))
        if kind is Fault.KILL:
            nodes[node_id].kill()
            # Shorter and longer than the session of a broker.
            _wait(random.uniform(0, 5))
            self._cluster.start(node_id)
        elif kind is Fault.KILL_ALL:
            for node in nodes.values():
                node.kill()
            self._cluster.start()
        elif kind is Fault.PAUSE:
            self._cluster.pause(node_id)
            _wait(random.uniform(0.5, 6))
            self._cluster.resume(node_id)
        else:
            nodes[node_id].stop()
            self._cluster.start(node_id)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
