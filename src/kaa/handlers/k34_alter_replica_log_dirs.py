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
from kaa.limits import MOVES_BEGUN_PER_SLICE_MAX, NAMES_ANSWERED_PER_SLICE_MAX
from kaa.model.topics import TopicPartition
from kaa.model.turns import Turns
from kaa.net.pending import Pending
from kaa.serving.applied import until_applied, until_free
from kaa.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.handlers.context import Answer, RequestContext
    from kaa.replication.manager import ReplicaManager
    from kaa.replication.moves import LogDirectoryMoves
    from kaa.serving.services import Services
    from kaa.wire.messages.k34_alter_replica_log_dirs import AlterReplicaLogDirsRequest

    Altered = tuple[TopicPartition, AlterReplicaLogDirPartitionResult]


def handle(
    services: Services, request: AlterReplicaLogDirsRequest, _: RequestContext
) -> Answer[AlterReplicaLogDirsResponse]:
    return Pending(_alter(services, request))


async def _alter(
    services: Services, request: AlterReplicaLogDirsRequest
) -> Answer[AlterReplicaLogDirsResponse]:
    turns = Turns(NAMES_ANSWERED_PER_SLICE_MAX)
    wanted: dict[TopicPartition, str] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            await turns.next()
            for number in topic.partitions:
                await turns.next()
                wanted[TopicPartition(topic.name, number)] = directory.path
    replicas, moves = services.replicas, services.replicas.moves
    assert moves is not None

    def alter(item: tuple[TopicPartition, str]) -> Altered:
        key, path = item
        error = moves.alter(key, path, replicas.find(key.topic, key.partition))
        return key, AlterReplicaLogDirPartitionResult(
            partition_index=key.partition, error_code=error
        )

    alter_all = partial(
        in_slices,
        list(wanted.items()),
        alter,
        _response,
        slice_max=MOVES_BEGUN_PER_SLICE_MAX,
    )
    await until_applied(replicas, wanted)
    if replicas.can_free_names:
        for key in wanted:
            await turns.next()
            if moves.needs_way(key):
                return await _once_free(replicas, moves, wanted, alter_all)
    return alter_all()


async def _once_free(
    replicas: ReplicaManager,
    moves: LogDirectoryMoves,
    wanted: dict[TopicPartition, str],
    alter_all: Callable[[], Answer[AlterReplicaLogDirsResponse]],
) -> Answer[AlterReplicaLogDirsResponse]:
    """Writes no checkpoints on the loop where replicas come back to a directory that they have just
    left, or moves get another target.
    """
    turns = Turns(MOVES_BEGUN_PER_SLICE_MAX)
    for key, path in wanted.items():
        await turns.next()
        moves.make_way(key, path, replicas.find(key.topic, key.partition))
    await until_free(replicas, wanted)
    return alter_all()


def _response(results: list[Altered]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for key, result in results:
        topic = topics.get(key.topic)
        if topic is None:
            topic = AlterReplicaLogDirTopicResult(topic_name=key.topic, partitions=[])
            topics[key.topic] = topic
        topic.partitions.append(result)
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
