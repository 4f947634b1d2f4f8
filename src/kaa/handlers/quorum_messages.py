"""Requests of the metadata quorum between their wire form and the machine's.

On the wire each is about a list of topics with partitions; there is one quorum, so that exactly one
topic with one partition is legal, and everything else is an invalid request. The id of the cluster
is compared before that. Errors of either kind stand at the top of the answer, without a partition.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from kaa.model.topics import CLUSTER_METADATA
from kaa.net.pending import Pending
from kaa.quorum.messages import BeginQuorumEpochResponse, EndQuorumEpochResponse, ErrorResponse
from kaa.quorum.metadata_log import METADATA_TOPIC_ID
from kaa.quorum.voters import replica_key
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kaa.handlers.context import Answer, RequestContext
    from kaa.quorum.messages import LeaderResponse, Request
    from kaa.quorum.voters import ReplicaKey
    from kaa.serving.services import NodeServices
    from kaa.wire.primitives import Uuid

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
E = TypeVar("E")

UNKNOWN_ID: Final = -1


class LeaderAddress(NamedTuple):
    """Where the leader is that an answer names."""

    node_id: int
    host: str
    port: int


def check_request(
    services: NodeServices,
    cluster_id: str | None,
    topics: Iterable[tuple[str | Uuid, Iterable[int]]],
) -> Errors:
    """Whether a request is about the metadata partition of this cluster, and nothing else."""
    if cluster_id is not None and cluster_id != services.cluster_id:
        return Errors.INCONSISTENT_CLUSTER_ID
    # More than one of anything is wrong, however many there are.
    asked = [(topic, list(islice(numbers, 2))) for topic, numbers in islice(topics, 2)]
    if asked not in ([(CLUSTER_METADATA, [0])], [(METADATA_TOPIC_ID, [0])]):
        return Errors.INVALID_REQUEST
    return Errors.NONE


def asked_by_name(topics: Iterable[Any]) -> Iterator[tuple[str | Uuid, Iterable[int]]]:
    """What `check_request` looks at, of topics as most of the requests name them."""
    for topic in topics:
        yield topic.topic_name, (each.partition_index for each in topic.partitions)


class EpochMessages(NamedTuple, Generic[R_co]):
    """The classes that an answer about an epoch of the quorum is made of."""

    response: Callable[..., R_co]
    topic: Callable[..., Any]
    partition: Callable[..., Any]
    endpoint: Callable[..., Any]


def serve_epoch_request(
    services: NodeServices,
    request: Any,
    question: Callable[[], Request],
    types: EpochMessages[R],
    context: RequestContext,
) -> Answer[R]:
    """Answers BeginQuorumEpoch or EndQuorumEpoch: with the leader that this replica knows."""
    error = check_request(services, request.cluster_id, asked_by_name(request.topics))
    if error is not Errors.NONE:
        return types.response(error_code=error)
    return Pending(_serve_epoch_request(services, question(), types, context))


async def _serve_epoch_request(
    services: NodeServices, question: Request, types: EpochMessages[R], context: RequestContext
) -> R:
    answer = await services.quorum.serve(question)
    if isinstance(answer, ErrorResponse):
        return types.response(error_code=answer.error)
    assert isinstance(answer, BeginQuorumEpochResponse | EndQuorumEpochResponse)
    partition = types.partition(
        partition_index=0,
        error_code=answer.error,
        leader_id=leader_id_of(answer),
        leader_epoch=answer.leader_epoch,
    )
    return types.response(
        topics=[types.topic(topic_name=CLUSTER_METADATA, partitions=[partition])],
        node_endpoints=node_endpoints(types.endpoint, answer, context),
    )


def voter_key(voter_id: int, directory_id: Uuid) -> ReplicaKey | None:
    """The replica that the sender means to talk to; None if it does not say."""
    return None if voter_id == UNKNOWN_ID else replica_key(voter_id, directory_id)


def leader_id_of(response: LeaderResponse) -> int:
    return UNKNOWN_ID if response.leader_id is None else response.leader_id


def node_endpoints(
    endpoint: Callable[..., E], answer: LeaderResponse, context: RequestContext, since: int = 1
) -> list[E]:
    """Where the leader listens, from the version on that says so."""
    address = leader_address(answer, context.listener_name)
    if address is None or context.api_version < since:
        return []
    return [endpoint(node_id=address.node_id, host=address.host, port=address.port)]


def leader_address(response: LeaderResponse, listener_name: str) -> LeaderAddress | None:
    """Where the leader of the answer listens under the name of this listener."""
    if response.leader_id is None:
        return None
    for point in response.leader_endpoints:
        if point.listener == listener_name:
            return LeaderAddress(response.leader_id, point.host, point.port)
    return None
