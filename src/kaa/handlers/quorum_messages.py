"""Requests of the metadata quorum between their wire form and the machine's.

On the wire each is about a list of topics with partitions; there is one quorum, so that exactly one
topic with one partition is legal, and everything else is an invalid request. The id of the cluster
is compared before that. Errors of either kind stand at the top of the answer, without a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.controller.names import METADATA_TOPIC
from kaa.quorum.metadata_log import METADATA_TOPIC_ID
from kaa.quorum.voters import Endpoint, ReplicaKey
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.quorum.messages import LeaderResponse
    from kaa.quorum.voters import Endpoints
    from kaa.serving.services import Services
    from kaa.wire.primitives import Uuid

UNKNOWN_ID: Final = -1


class LeaderAddress(NamedTuple):
    """Where the leader is that an answer names."""

    node_id: int
    host: str
    port: int


def check_request(
    services: Services,
    cluster_id: str | None,
    topics: Iterable[tuple[str | Uuid, Sequence[int]]],
) -> Errors:
    """Whether a request is about the metadata partition of this cluster, and nothing else."""
    if cluster_id is not None and cluster_id != services.cluster_id:
        return Errors.INCONSISTENT_CLUSTER_ID
    asked = [(topic, list(numbers)) for topic, numbers in topics]
    if asked not in ([(METADATA_TOPIC, [0])], [(METADATA_TOPIC_ID, [0])]):
        return Errors.INVALID_REQUEST
    return Errors.NONE


def replica_key(node_id: int, directory_id: Uuid) -> ReplicaKey:
    return ReplicaKey(node_id, None if directory_id == UUID_ZERO else directory_id)


def voter_key(voter_id: int, directory_id: Uuid) -> ReplicaKey | None:
    """The replica that the sender means to talk to; None if it does not say."""
    return None if voter_id == UNKNOWN_ID else replica_key(voter_id, directory_id)


def leader_endpoints(found: Iterable[Any]) -> Endpoints:
    return tuple(Endpoint(point.name, point.host, point.port) for point in found)


def leader_id_of(response: LeaderResponse) -> int:
    return UNKNOWN_ID if response.leader_id is None else response.leader_id


def leader_address(response: LeaderResponse, listener_name: str) -> LeaderAddress | None:
    """Where the leader of the answer listens under the name of this listener."""
    if response.leader_id is None:
        return None
    for point in response.leader_endpoints:
        if point.listener == listener_name:
            return LeaderAddress(response.leader_id, point.host, point.port)
    return None
