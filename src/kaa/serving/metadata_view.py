"""The cluster as the clients of one listener see it.

A client knows nodes by the addresses of the listener that it came in by. A broker without that
listener, or one that is fenced, cannot serve it, and a replica there is as good as offline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.directories import is_online
from kaa.model.nodes import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaa.controller.image import BrokerImage, ClusterImage, PartitionImage
    from kaa.model.nodes import Endpoint


def reachable_brokers(
    image: ClusterImage, listener_name: str, *, fenced: bool = False
) -> Iterator[tuple[BrokerImage, Endpoint]]:
    """Brokers with their address on the listener; with `fenced`, also those that serve nobody."""
    for broker in image.brokers.values():
        endpoint = broker.endpoint(listener_name)
        if endpoint is not None and (fenced or not broker.is_fenced):
            yield broker, endpoint


def controller_for_clients(node_id: int, broker_ids: Sequence[int]) -> int:
    """Where clients of this broker send what is for the controller; -1 if they see no broker.

    Any broker passes it on, and Kafka names one that it takes for alive, by chance. The one that
    answers is alive for certain: another may have died a moment ago.
    """
    if node_id in broker_ids:
        return node_id
    return broker_ids[0] if broker_ids else -1


def visible_leader(image: ClusterImage, partition: PartitionImage, listener_name: str) -> int:
    """The leader, or -1 if there is none that the client can reach."""
    leader = image.brokers.get(partition.leader)
    if leader is None or leader.endpoint(listener_name) is None:
        return NO_LEADER
    return leader.id


def offline_replicas(
    image: ClusterImage, partition: PartitionImage, listener_name: str
) -> list[int]:
    """Replicas on brokers or in directories that cannot serve the client."""
    has_directories = len(partition.directories) == len(partition.replicas)
    offline = []
    for index, replica in enumerate(partition.replicas):
        broker = image.brokers.get(replica)
        if (
            broker is None
            or broker.is_fenced
            or broker.endpoint(listener_name) is None
            or (has_directories and not is_online(partition.directories[index], broker.directories))
        ):
            offline.append(replica)
    return offline
