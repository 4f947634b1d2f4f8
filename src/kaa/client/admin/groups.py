"""Groups for the admin client: who is in them, and how far they are.

Groups of every kind are described in one form. A group is first asked for as one of the newer
protocol (KIP-848) and, where it is not one or the broker does not know of it, as a classic one;
what is neither is asked for as a share group and as a streams group. Members of streams groups have
tasks instead of partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.client.admin.base import AdminBase
from kaa.client.admin.streams import streams_member
from kaa.client.arguments import names_of, partitions_of
from kaa.client.consumer.offsets import EARLIEST, LATEST, READ_UNCOMMITTED, list_offsets
from kaa.client.coordinator import CoordinatorType, ask_coordinator, ask_coordinators
from kaa.client.errors import KafkaError, UnsupportedApiError
from kaa.client.group.consumer_protocol import (
    PROTOCOL_TYPE,
    by_topic,
    decode_assignment,
    decode_subscription,
)
from kaa.client.group.offsets import commit_offsets, fetch_offsets, offsets_of
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kaa.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from kaa.wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
from kaa.wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest
from kaa.wire.primitives import WireError
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kaa.client.admin.base import Outcome
    from kaa.client.admin.streams import StreamsTask
    from kaa.client.connection import Connection
    from kaa.client.group.offsets import OffsetAndMetadata
    from kaa.client.metadata import Broker
    from kaa.wire.schema import Request

CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"
SHARE: Final = "Share"
STREAMS: Final = "Streams"
# What a broker says of a kind of group that it does not have, or that this group is not of.
_OTHER_KIND: Final = frozenset({Errors.GROUP_ID_NOT_FOUND, Errors.UNSUPPORTED_VERSION})
_LIST_STATES_VERSION: Final = 4
_LIST_TYPES_VERSION: Final = 5
# The state in which older brokers describe a group that does not exist.
_DEAD: Final = "Dead"
# Members of a group of the newer protocol that use the classic one.
_CLASSIC_MEMBER: Final = 0


class GroupListing(NamedTuple):
    """A group in a list; state and type are empty where the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class MemberDescription(NamedTuple):
    """A member of a group, and the partitions that it has."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    # Topics it subscribes to, and since KIP-848 the pattern; None: it has none.
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    rack_id: str | None = None
    # Of the newer protocol alone: what it is to have, and the epoch of what it has.
    target_assignment: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    is_classic: bool = True
    # Of a streams group alone.
    active_tasks: tuple[StreamsTask, ...] = ()
    standby_tasks: tuple[StreamsTask, ...] = ()


class GroupDescription(NamedTuple):
    """A group of any kind. Classic groups have no epochs."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Broker | None
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


class PartitionLag(NamedTuple):
    """How far a group is in a partition; None where it committed nothing."""

    partition: TopicPartition
    committed: int | None
    start_offset: int
    end_offset: int
    # The member that has the partition now.
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """Records between the commit and the end that still exist."""
        if self.committed is None:
            return None
        return max(0, self.end_offset - max(self.committed, self.start_offset))


class GroupAdmin(AdminBase):
    """The part of the admin client that is about groups."""

    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """The groups of all brokers by name; states and types are Kafka's words."""
        found: dict[str, GroupListing] = {}
        states, types = names_of(states, "state"), names_of(types, "type")
        for node_id in await self._node_ids():
            for row in await self._list_of(node_id, states, types):
                listing = GroupListing(
                    row.group_id, row.protocol_type, row.group_state or "", row.group_type or ""
                )
                found[listing.group_id] = listing
        return [found[name] for name in sorted(found)]

    async def _list_of(
        self, node_id: int, states: Sequence[str], types: Sequence[str]
    ) -> list[Any]:
        async def attempt() -> list[Any]:
            connection = await self.cluster.connection(node_id)
            version = connection.version_of(ApiKey.LIST_GROUPS)
            if (states and version < _LIST_STATES_VERSION) or (
                types and version < _LIST_TYPES_VERSION
            ):
                raise UnsupportedApiError(
                    f"the broker {connection.address} cannot list groups by state or type; "
                    "list them all"
                )
            request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
            response = await connection.request(request)
            if response.error_code:
                raise KafkaError(
                    Errors.of(response.error_code), "list of groups", node=connection.address
                )
            return list(response.groups)

        groups: list[Any] = await self.cluster.repeat(attempt, "list of groups", self._timeout_ms)
        return groups

    async def describe_groups(
        self, names: Iterable[str]
    ) -> dict[str, GroupDescription | KafkaError]:
        """Groups by name; one that does not exist has its error."""
        return await ask_coordinators(
            self.cluster,
            CoordinatorType.GROUP,
            names_of(names, "group"),
            "description of groups",
            self._timeout_ms,
            self._describe,
        )

    async def describe_group(self, name: str) -> GroupDescription:
        """One group; raises KafkaError if there is no such group."""
        found = (await self.describe_groups([name]))[name]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def _describe(
        self, connection: Connection, names: list[str]
    ) -> dict[str, GroupDescription | KafkaError]:
        brokers = self.cluster.metadata.brokers.values()
        broker = next((one for one in brokers if one.address == connection.address), None)
        found: dict[str, GroupDescription | KafkaError] = {}
        if ApiKey.CONSUMER_GROUP_DESCRIBE in connection.versions:
            request = ConsumerGroupDescribeRequest(group_ids=names)
            for row in (await connection.request(request)).groups:
                if row.error_code != Errors.GROUP_ID_NOT_FOUND:
                    found[row.group_id] = _error(row, connection) or _consumer_group(row, broker)
        rest = [name for name in names if name not in found]
        if rest:
            response = await connection.request(DescribeGroupsRequest(groups=rest))
            for group in response.groups:
                found[group.group_id] = _error(group, connection) or _classic_group(group, broker)
        await self._describe_others(connection, found, broker)
        return found

    async def _describe_others(
        self,
        connection: Connection,
        found: dict[str, GroupDescription | KafkaError],
        broker: Broker | None,
    ) -> None:
        """Asks for what is neither a consumer group nor a classic one."""
        kinds: tuple[tuple[ApiKey, Callable[..., Request[Any]], Any], ...] = (
            (ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest, _share_group),
            (ApiKey.STREAMS_GROUP_DESCRIBE, StreamsGroupDescribeRequest, _streams_group),
        )
        for key, request, described in kinds:
            rest = [
                name
                for name, one in found.items()
                if isinstance(one, KafkaError) and one.error is Errors.GROUP_ID_NOT_FOUND
            ]
            if rest and key in connection.versions:
                for row in (await connection.request(request(group_ids=rest))).groups:
                    if row.error_code not in _OTHER_KIND:
                        found[row.group_id] = _error(row, connection) or described(row, broker)

    async def delete_groups(self, names: Iterable[str]) -> Outcome:
        """Deletes groups without members, with their offsets."""

        async def ask(connection: Connection, some: list[str]) -> dict[str, KafkaError | None]:
            response = await connection.request(DeleteGroupsRequest(groups_names=some))
            return {
                row.group_id: _failure(
                    row.error_code, f"cannot delete group {row.group_id!r}", connection
                )
                for row in response.results
            }

        return await ask_coordinators(
            self.cluster,
            CoordinatorType.GROUP,
            names_of(names, "group"),
            "deletion of groups",
            self._timeout_ms,
            ask,
        )

    async def remove_members(
        self, group: str, *, instance_ids: Iterable[str] = (), member_ids: Iterable[str] = ()
    ) -> Outcome:
        """Takes members out of a classic group, static ones by their instance ids."""
        members = [
            MemberIdentity(member_id="", group_instance_id=name, reason="removed by an admin")
            for name in names_of(instance_ids, "member")
        ] + [
            MemberIdentity(member_id=name, reason="removed by an admin")
            for name in names_of(member_ids, "member")
        ]
        what = f"removal of members of group {group!r}"

        async def ask(connection: Connection) -> Outcome | KafkaError:
            request = LeaveGroupRequest(group_id=group, members=members)
            response = await connection.request(request)
            return _failure(response.error_code, what, connection) or {
                row.group_instance_id or row.member_id: _failure(row.error_code, what, connection)
                for row in response.members
            }

        return await ask_coordinator(
            self.cluster, CoordinatorType.GROUP, group, what, self._timeout_ms, ask
        )

    # --- offsets

    async def list_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group, of all partitions or of these; others are absent."""
        wanted = None if partitions is None else partitions_of(partitions)
        return await fetch_offsets(
            self.cluster, group, wanted, self._timeout_ms, require_stable=require_stable
        )

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commits offsets for a group that has no members."""
        return await commit_offsets(self.cluster, group, offsets_of(offsets), self._timeout_ms)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Deletes offsets of partitions whose topic no member subscribes to."""
        topics = [
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in numbers],
            )
            for name, numbers in by_topic(partitions_of(partitions)).items()
        ]
        what = f"cannot delete offsets of group {group!r}"

        async def ask(
            connection: Connection,
        ) -> dict[TopicPartition, KafkaError | None] | KafkaError:
            request = OffsetDeleteRequest(group_id=group, topics=topics)
            response = await connection.request(request)
            return _failure(response.error_code, what, connection) or {
                TopicPartition(topic.name, row.partition_index): _failure(
                    row.error_code, f"{what} in {topic.name}-{row.partition_index}", connection
                )
                for topic in response.topics
                for row in topic.partitions
            }

        return await ask_coordinator(
            self.cluster, CoordinatorType.GROUP, group, what, self._timeout_ms, ask
        )

    async def group_lag(
        self, group: str, *, isolation_level: int = READ_UNCOMMITTED
    ) -> list[PartitionLag]:
        """How far a group is: every partition that it has committed or that a member has."""
        committed = await self.list_group_offsets(group)
        described = (await self.describe_groups([group]))[group]
        members: dict[TopicPartition, MemberDescription] = {}
        if not isinstance(described, KafkaError):
            members = {
                partition: member for member in described.members for partition in member.assignment
            }
        elif not committed:
            raise described
        wanted = sorted({*committed, *members})
        starts, ends = [
            await list_offsets(
                self.cluster, dict.fromkeys(wanted, which), self._timeout_ms, isolation_level
            )
            for which in (EARLIEST, LATEST)
        ]
        return [
            PartitionLag(
                partition,
                committed[partition].offset if partition in committed else None,
                starts[partition].offset,
                ends[partition].offset,
                members.get(partition),
            )
            for partition in wanted
        ]


def _failure(code: int, what: str, connection: Connection) -> KafkaError | None:
    return KafkaError(Errors.of(code), what, node=connection.address) if code else None


def _error(row: Any, connection: Connection) -> KafkaError | None:
    what = f"group {row.group_id!r}"
    if row.error_code:
        return KafkaError(
            Errors.of(row.error_code), what, message=row.error_message, node=connection.address
        )
    if row.group_state == _DEAD and not row.members:
        return KafkaError(Errors.GROUP_ID_NOT_FOUND, what, node=connection.address)
    return None


def _classic_group(row: Any, coordinator: Broker | None) -> GroupDescription:
    is_consumer = row.protocol_type in {PROTOCOL_TYPE, ""}
    return GroupDescription(
        row.group_id,
        CLASSIC,
        row.group_state,
        row.protocol_type,
        row.protocol_data,
        coordinator,
        tuple(_classic_member(one, is_consumer=is_consumer) for one in row.members),
    )


def _classic_member(row: Any, *, is_consumer: bool) -> MemberDescription:
    assignment: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    if is_consumer:
        try:
            assignment = decode_assignment(bytes(row.member_assignment)).partitions
            if row.member_metadata:
                topics = decode_subscription(bytes(row.member_metadata)).topics
        except WireError:
            # Another kind of member under the name of a consumer: it is shown without these.
            assignment, topics = (), ()
    return MemberDescription(
        row.member_id,
        row.group_instance_id,
        row.client_id,
        row.client_host,
        assignment,
        topics,
    )


def _consumer_group(row: Any, coordinator: Broker | None) -> GroupDescription:
    return GroupDescription(
        row.group_id,
        CONSUMER,
        row.group_state,
        PROTOCOL_TYPE,
        row.assignor_name,
        coordinator,
        tuple(
            MemberDescription(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                _partitions(one.assignment),
                tuple(one.subscribed_topic_names),
                one.subscribed_topic_regex or None,
                one.rack_id or None,
                _partitions(one.target_assignment),
                one.member_epoch,
                one.member_type == _CLASSIC_MEMBER,
            )
            for one in row.members
        ),
        row.group_epoch,
        row.assignment_epoch,
    )


def _share_group(row: Any, coordinator: Broker | None) -> GroupDescription:
    return GroupDescription(
        row.group_id,
        SHARE,
        row.group_state,
        SHARE.lower(),
        row.assignor_name,
        coordinator,
        tuple(
            MemberDescription(
                one.member_id,
                None,
                one.client_id,
                one.client_host,
                _partitions(one.assignment),
                tuple(one.subscribed_topic_names),
                rack_id=one.rack_id or None,
                epoch=one.member_epoch,
                is_classic=False,
            )
            for one in row.members
        ),
        row.group_epoch,
        row.assignment_epoch,
    )


def _streams_group(row: Any, coordinator: Broker | None) -> GroupDescription:
    members = []
    for one in row.members:
        member = streams_member(one)
        members.append(
            MemberDescription(
                member.member_id,
                one.instance_id,
                member.client_id,
                member.host,
                (),
                rack_id=one.rack_id or None,
                epoch=member.epoch,
                is_classic=False,
                active_tasks=member.active_tasks,
                standby_tasks=member.standby_tasks,
            )
        )
    return GroupDescription(
        row.group_id,
        STREAMS,
        row.group_state,
        STREAMS.lower(),
        "sticky",
        coordinator,
        tuple(members),
        row.group_epoch,
        row.assignment_epoch,
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )
