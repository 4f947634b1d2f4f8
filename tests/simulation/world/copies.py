"""Which nodes may end uncleanly, and which may lose their copies, without more than was promised.

A controller cannot see what a disk has lost. It goes by how a process ended: one that ended
uncleanly is out of every ISR and ELR as soon as it registers again, and gets back into them by
copying. Until then its end is unnoticed. The controller takes the copy for what it was, may elect
it, and may let a reassignment leave it as one of two. So what one node lost is made good if another
one has everything *and* is believed to have it, which asks for two things:

1. A node loses something only while no other has an unnoticed end, or one ahead of it that nobody
   can say the moment of (a full disk, say), and while every partition has another replica in its
   ISR or ELR.
2. While a loss is unnoticed, no other node ends uncleanly. Otherwise two copies are out of the sets
   at once, the replica that led last is elected, and it may be the one that lost. Kafka does the
   same.

Where nothing is lost, all nodes may end at any time: the replica that led last has everything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.controller.image import ClusterImage
    from tests.simulation.world.processes import Node


class _End(NamedTuple):
    """An unclean end: after how many boots it came, and whether something was lost by it."""

    boots: int
    has_lost: bool


class Copies:
    """See the module's text."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        # By node, its last unclean end, which may have been noticed.
        self._ends: dict[str, _End] = {}
        # How many faults are in force that will end a node, at a moment that is not known.
        self._doomed: Counter[str] = Counter()

    def doom(self, node: Node, *, has_lost: bool = False) -> None:
        """The node will end uncleanly, at any moment until it is spared."""
        self._doomed[node.name] += 1
        self._note(node, has_lost=has_lost)

    def spare(self, node: Node) -> None:
        """What the node was doomed by is over."""
        self._doomed[node.name] -= 1

    def is_doomed(self, node: Node) -> bool:
        return self._doomed[node.name] > 0

    def ended(self, node: Node, *, has_lost: bool = False) -> None:
        """The node ends uncleanly now."""
        self._note(node, has_lost=has_lost)

    def _note(self, node: Node, *, has_lost: bool) -> None:
        before = self._ends.get(node.name)
        is_known = before is None or self._is_noticed(node, before)
        was_lost = not is_known and before is not None and before.has_lost
        self._ends[node.name] = _End(node.boots, has_lost or was_lost)

    def may_end(self, node: Node) -> bool:
        """Whether the node may end uncleanly now."""
        return not any(end.has_lost for end in self._unnoticed(node))

    def may_lose(self, node: Node) -> bool:
        """Whether the node may end and lose what others have."""
        return not any(self._unnoticed(node)) and has_others(node, self._newest_image())

    def _unnoticed(self, node: Node) -> Iterable[_End]:
        """Unclean ends of others that the controller does not know of."""
        for other in self._nodes:
            end = self._ends.get(other.name)
            if other is not node and end is not None and not self._is_noticed(other, end):
                yield end

    def _is_noticed(self, node: Node, end: _End) -> bool:
        """A node serves when its registration is committed."""
        return node.is_ready and node.boots > end.boots and not self.is_doomed(node)

    def _newest_image(self) -> ClusterImage | None:
        views = [node.broker.services.metadata for node in self._nodes if node.broker is not None]
        newest = max(views, key=lambda view: view.committed_offset, default=None)
        return None if newest is None else newest.image


def has_others(node: Node, image: ClusterImage | None) -> bool:
    """Whether every partition with several replicas has another one that may lead."""
    return image is not None and all(
        {*partition.isr, *partition.eligible_leader_replicas} - {node.config.node_id}
        for topic in image.topics.values()
        for partition in topic.partitions.values()
        if len(partition.replicas) > 1
    )
