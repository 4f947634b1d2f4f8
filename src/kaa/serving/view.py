"""What every part of a node may know of it: who it is, its clock and loop, and what is in force."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaa.controller.image import ClusterImage

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from kaa.config.server import BrokerConfig
    from kaa.model.errands import Errands
    from kaa.model.seams import Clock


def everybody(_listener_name: str, _address: str) -> bool:
    """Who may act as a node of the cluster where there is no authorizer."""
    return True


@dataclass(slots=True)
class NodeView:
    """One node as its parts see it. The node itself sets what changes while it runs."""

    node_id: int
    cluster_id: str
    loop: asyncio.AbstractEventLoop
    clock: Clock
    # For what is begun and waited for by nobody.
    errands: Errands
    # The settings in force: of the start, and above them what was changed since.
    config: BrokerConfig
    # Committed metadata.
    image: ClusterImage = field(default_factory=ClusterImage)
    # Its offset: the epoch of the finalized features.
    image_offset: int = -1
    # Whether a sender, by the listener that it came in at and its address, may send what only nodes
    # of the cluster do (CLUSTER_ACTION).
    may_act_as_node: Callable[[str, str], bool] = everybody
