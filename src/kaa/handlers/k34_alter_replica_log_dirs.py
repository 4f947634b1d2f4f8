"""AlterReplicaLogDirs, key 34: moves replicas of this broker to other log directories (KIP-113).

The answer says whether a move was begun, not that it is done; DescribeLogDirs tells how far it is.
Of a partition that is listed under several directories the last one counts. A partition that is not
here yet gets REPLICA_NOT_AVAILABLE, and is made in that directory if it comes here. Another target
replaces the first one, and the directory in which the replica is ends its move.

A cordoned directory (KIP-1066) refuses with INVALID_REPLICA_ASSIGNMENT.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.handlers.in_slices import in_slices
from kaa.handlers.settling import once_settled
from kaa.limits import MOVES_BEGUN_PER_SLICE_MAX
from kaa.model.topics import TopicPartition
from kaa.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, Encoded, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.errors import Errors
    from kaa.wire.messages.k34_alter_replica_log_dirs import AlterReplicaLogDirsRequest
    from kaa.wire.schema import Response


def handle(
    services: Services, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    wanted = {
        TopicPartition(topic.name, number): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for number in topic.partitions
    }

    def alter(item: tuple[TopicPartition, str]) -> tuple[TopicPartition, Errors]:
        key, path = item
        replicas = services.replicas
        assert replicas.moves is not None
        return key, replicas.moves.alter(key, path, replicas.find(key.topic, key.partition))

    serve = partial(
        in_slices,
        services,
        context,
        list(wanted.items()),
        alter,
        _response,
        slice_max=MOVES_BEGUN_PER_SLICE_MAX,
    )
    return once_settled(services.replicas, wanted, serve)


def _response(results: list[tuple[TopicPartition, Errors]]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for key, error in results:
        topic = topics.get(key.topic)
        if topic is None:
            topic = AlterReplicaLogDirTopicResult(topic_name=key.topic, partitions=[])
            topics[key.topic] = topic
        topic.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=key.partition, error_code=error)
        )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
