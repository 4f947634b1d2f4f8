"""Committed offsets of groups: reading and writing them at the coordinator.

Topics are named, not given by id: a commit must be possible for a topic whose id is not known, and
OffsetCommit and OffsetFetch take names up to version 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.client.arguments import pairs_of, partition_of, whole_number
from kaa.client.coordinator import CoordinatorType, ask_coordinator
from kaa.client.errors import KafkaError
from kaa.client.group.consumer_protocol import by_topic
from kaa.model.topics import NO_OFFSET, TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.client.cluster import Cluster
    from kaa.client.connection import Connection

# The last versions that name topics rather than give ids.
_NAMES_VERSION: Final = 9
# The first version of OffsetFetch that is about several groups.
_GROUPS_VERSION: Final = 8


class OffsetAndMetadata(NamedTuple):
    """A committed offset: that of the next record to read, with a text of the one who committed."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def offsets_of(
    given: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets to commit from what an application says, which may be numbers alone."""
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for partition, offset in pairs_of(given, "partitions and offsets"):
        one = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        if not isinstance(one.metadata, str):
            raise TypeError(f"metadata of an offset is text, not {one.metadata!r}")
        found[partition_of(partition)] = one._replace(offset=whole_number(one.offset, "an offset"))
    return found


def commit_request(
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    member_id: str = "",
    epoch: int = -1,
    instance_id: str | None = None,
) -> OffsetCommitRequest:
    """The epoch is the generation of a classic group, or the epoch of a member of the newer one."""
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offsets[TopicPartition(topic, number)].offset,
                        committed_leader_epoch=offsets[TopicPartition(topic, number)].leader_epoch,
                        committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )


async def send_commit(
    connection: Connection, request: OffsetCommitRequest
) -> dict[TopicPartition, KafkaError | None]:
    """One commit: the outcome of each partition."""
    version = connection.version_of(ApiKey.OFFSET_COMMIT, _NAMES_VERSION)
    response = await connection.request(request, version=version)
    what = f"cannot commit offsets of group {request.group_id!r}"
    return {
        TopicPartition(topic.name, row.partition_index): KafkaError(
            Errors.of(row.error_code),
            f"{what} in {topic.name}-{row.partition_index}",
            node=connection.address,
        )
        if row.error_code
        else None
        for topic in response.topics
        for row in topic.partitions
    }


async def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    timeout_ms: int,
) -> dict[TopicPartition, KafkaError | None]:
    """Commits from outside of the group."""
    if not offsets:
        return {}

    async def ask(connection: Connection) -> dict[TopicPartition, KafkaError | None] | KafkaError:
        answers = await send_commit(connection, commit_request(group, offsets))
        return group_failure(answers.values()) or answers

    what = f"commit of offsets of group {group!r}"
    return await ask_coordinator(cluster, CoordinatorType.GROUP, group, what, timeout_ms, ask)


def group_failure(errors: Iterable[KafkaError | None]) -> KafkaError | None:
    """The error that is about the group rather than about one of its partitions, if there is."""
    for error in errors:
        if error is not None and error.error not in _OF_PARTITIONS:
            return error
    return None


_OF_PARTITIONS: Final = frozenset(
    {
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.TOPIC_AUTHORIZATION_FAILED,
        Errors.OFFSET_METADATA_TOO_LARGE,
        Errors.INVALID_COMMIT_OFFSET_SIZE,
        Errors.UNSTABLE_OFFSET_COMMIT,
    }
)


async def fetch_offsets(
    cluster: Cluster,
    group: str,
    partitions: Iterable[TopicPartition] | None,
    timeout_ms: int,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The committed offsets of all partitions (None) or of these; others are absent.

    With `require_stable` it waits for transactions that commit offsets to end.
    """
    wanted = None if partitions is None else by_topic(partitions)
    what = f"offsets of group {group!r}"

    async def ask(
        connection: Connection,
    ) -> dict[TopicPartition, OffsetAndMetadata] | KafkaError:
        version = connection.version_of(ApiKey.OFFSET_FETCH, _NAMES_VERSION)
        request = _fetch_request(group, wanted, version, require_stable=require_stable)
        response = await connection.request(request, version=version)
        answer = response if version < _GROUPS_VERSION else response.groups[0]
        if answer.error_code:
            return KafkaError(Errors.of(answer.error_code), what, node=connection.address)
        return _offsets(answer, what, connection.address)

    return await ask_coordinator(cluster, CoordinatorType.GROUP, group, what, timeout_ms, ask)


def _fetch_request(
    group: str,
    wanted: Mapping[str, list[int]] | None,
    version: int,
    *,
    require_stable: bool,
) -> OffsetFetchRequest:
    if version < _GROUPS_VERSION:
        return OffsetFetchRequest(
            group_id=group,
            topics=None
            if wanted is None
            else [
                OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
                for name, numbers in wanted.items()
            ],
            require_stable=require_stable and version >= 7,
        )
    asked = OffsetFetchRequestGroup(
        group_id=group,
        topics=None
        if wanted is None
        else [
            OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
            for name, numbers in wanted.items()
        ],
    )
    return OffsetFetchRequest(groups=[asked], require_stable=require_stable)


def _offsets(answer: Any, what: str, node: str) -> dict[TopicPartition, OffsetAndMetadata]:
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in answer.topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            if row.error_code:
                raise KafkaError(Errors.of(row.error_code), f"{what} in {partition}", node=node)
            if row.committed_offset != NO_OFFSET:
                found[partition] = OffsetAndMetadata(
                    row.committed_offset, row.metadata or "", row.committed_leader_epoch
                )
    return found
