"""Share groups for the admin client: who is in them, where they are, and how much is left.

`list_groups(types=["share"])` lists them, and `delete_groups` deletes those without members. Where
a group begins in a partition that it has not read is a setting of the group
(`share.auto.offset.reset`, by `alter_configs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kaa.client.admin.base import AdminBase
from kaa.client.arguments import names_of, pairs_of, partition_of, whole_number
from kaa.client.coordinator import CoordinatorType, ask_coordinator
from kaa.client.errors import KafkaError
from kaa.client.group.consumer_protocol import by_topic
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages import k90_describe_share_group_offsets as k90
from kaa.wire.messages import k91_alter_share_group_offsets as k91
from kaa.wire.messages import k92_delete_share_group_offsets as k92
from kaa.wire.messages.k77_share_group_describe import ShareGroupDescribeRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.client.admin.base import Outcome
    from kaa.client.connection import Connection
    from kaa.wire.schema import Request


class ShareMemberDescription(NamedTuple):
    """A member of a share group, and the partitions that it takes records of."""

    member_id: str
    client_id: str
    host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    epoch: int


class ShareGroupDescription(NamedTuple):
    """A share group as its coordinator has it."""

    group_id: str
    state: str
    assignor: str
    epoch: int
    assignment_epoch: int
    members: tuple[ShareMemberDescription, ...]


class SharePosition(NamedTuple):
    """Where a share group is in a partition: everything before is done with. None: not known."""

    start_offset: int | None
    # Records from there on that are not done with.
    lag: int | None


class ShareAdmin(AdminBase):
    """The part of the admin client that is about share groups."""

    async def describe_share_group(self, group: str) -> ShareGroupDescription:
        """One group; raises KafkaError if there is no such group."""
        request = ShareGroupDescribeRequest(group_ids=[group])
        what = f"description of share group {group!r}"
        row = await self._ask_share(group, request, what, lambda response: response.groups[0])
        return ShareGroupDescription(
            row.group_id,
            row.group_state,
            row.assignor_name,
            row.group_epoch,
            row.assignment_epoch,
            tuple(_member(member) for member in row.members),
        )

    async def list_share_group_offsets(self, group: str) -> dict[TopicPartition, SharePosition]:
        """Where a group is, in every partition that it has read; raises KafkaError."""
        wanted = k90.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        request = k90.DescribeShareGroupOffsetsRequest(groups=[wanted])
        what = f"offsets of share group {group!r}"
        row = await self._ask_share(group, request, what, lambda response: response.groups[0])
        found = {}
        for topic in row.topics:
            for one in topic.partitions:
                name = TopicPartition(topic.topic_name, one.partition_index)
                if one.error_code:
                    error = Errors.of(one.error_code)
                    raise KafkaError(error, f"{what} in {name}", message=one.error_message)
                found[name] = SharePosition(
                    one.start_offset if one.start_offset >= 0 else None,
                    one.lag if one.lag >= 0 else None,
                )
        return found

    async def alter_share_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Lets a group without members go on at these offsets; raises KafkaError."""
        wanted = {
            partition_of(partition): whole_number(offset, "an offset")
            for partition, offset in pairs_of(offsets, "partitions and offsets")
        }
        topics = [
            k91.AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    k91.AlterShareGroupOffsetsRequestPartition(
                        partition_index=number, start_offset=wanted[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(wanted).items()
        ]
        request = k91.AlterShareGroupOffsetsRequest(group_id=group, topics=topics)
        what = f"cannot alter offsets of share group {group!r}"
        answer = await self._ask_share(group, request, what, lambda response: response)
        return {
            TopicPartition(topic.topic_name, one.partition_index): _failure(one, what)
            for topic in answer.responses
            for one in topic.partitions
        }

    async def delete_share_group_offsets(self, group: str, topics: Iterable[str]) -> Outcome:
        """Lets a group without members forget that it read topics; raises KafkaError."""
        named = [
            k92.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in names_of(topics)
        ]
        request = k92.DeleteShareGroupOffsetsRequest(group_id=group, topics=named)
        what = f"cannot delete offsets of share group {group!r}"
        answer = await self._ask_share(group, request, what, lambda response: response)
        return {topic.topic_name: _failure(topic, what) for topic in answer.responses}

    async def _ask_share(self, group: str, request: Request, what: str, row_of: Any) -> Any:
        async def ask(connection: Connection) -> Any:
            row = row_of(await connection.request(request))
            return _failure(row, what, connection.address) or row

        return await ask_coordinator(
            self.cluster, CoordinatorType.GROUP, group, what, self._timeout_ms, ask
        )


def _failure(row: Any, what: str, node: str | None = None) -> KafkaError | None:
    if not row.error_code:
        return None
    return KafkaError(Errors.of(row.error_code), what, message=row.error_message, node=node)


def _member(row: Any) -> ShareMemberDescription:
    return ShareMemberDescription(
        row.member_id,
        row.client_id,
        row.client_host,
        tuple(row.subscribed_topic_names),
        tuple(
            TopicPartition(topic.topic_name, number)
            for topic in row.assignment.topic_partitions
            for number in topic.partitions
        ),
        row.member_epoch,
    )
