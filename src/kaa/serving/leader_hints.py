"""Where to go instead: the leader, for clients that asked the wrong broker (KIP-951).

The answer names the leader beside the error, and lists the address of each named leader once, so
that a client need not ask for metadata first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kaa.model.nodes import NO_LEADER
from kaa.model.topics import NO_EPOCH
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.controller.image import BrokerImage
    from kaa.model.nodes import Endpoint
    from kaa.serving.services import Services

E = TypeVar("E")

# Errors of a fetch, of records or of a share group, whose answer names the leader.
HINTED: Final = frozenset({Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH})


class LeaderHint(NamedTuple):
    leader_id: int
    leader_epoch: int


def leader_hint(services: Services, topic: str, number: int) -> LeaderHint:
    """The leader as this broker knows it; -1 for both if it knows none."""
    partition = services.replicas.find(topic, number)
    if isinstance(partition, Partition):
        return LeaderHint(partition.image.leader, partition.leader_epoch)
    found = services.image.topics.get(topic)
    image = None if found is None else found.partitions.get(number)
    if image is None:
        return LeaderHint(NO_LEADER, NO_EPOCH)
    return LeaderHint(image.leader, image.leader_epoch)


class HintedLeaders:
    """The leaders that one answer names."""

    __slots__ = ("_found", "_listener_name", "_services")

    def __init__(self, services: Services, listener_name: str) -> None:
        self._services = services
        self._listener_name = listener_name
        self._found: dict[int, tuple[BrokerImage, Endpoint]] = {}

    def hint(self, topic: str, number: int) -> LeaderHint:
        """The leader of a partition, whose address will be among the `endpoints`."""
        hint = leader_hint(self._services, topic, number)
        broker = self._services.image.brokers.get(hint.leader_id)
        if broker is not None and not broker.is_fenced:
            endpoint = broker.endpoint(self._listener_name)
            if endpoint is not None:
                self._found[broker.id] = (broker, endpoint)
        return hint

    def endpoints(self, endpoint_type: Callable[..., E]) -> list[E]:
        """Where the leaders listen, as the answer lists them."""
        return [
            endpoint_type(
                node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker, endpoint in self._found.values()
        ]
