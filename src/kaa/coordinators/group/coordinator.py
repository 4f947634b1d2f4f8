"""The group coordinator of a broker, as handlers call it: requests in, responses out.

Each request goes to the shard of its group. A refusal of the shard becomes the response that says
so, in the shape of the API. Why members come and go, as far as they say (KIP-800), is logged.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kaa.coordinators.group.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kaa.coordinators.group.machine import RECORD_TYPES, GroupMachine
from kaa.coordinators.group.offset_fetch import fetch_offsets
from kaa.coordinators.group.topics import GroupTopics
from kaa.coordinators.machine import CoordinatorError, Result, told
from kaa.coordinators.runtime import Runtime, partition_for
from kaa.coordinators.shard import ShardState
from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kaa.wire.messages.k09_offset_fetch import OffsetFetchResponseGroup
from kaa.wire.messages.k11_join_group import JoinGroupResponse
from kaa.wire.messages.k12_heartbeat import HeartbeatResponse
from kaa.wire.messages.k13_leave_group import LeaveGroupResponse, MemberResponse
from kaa.wire.messages.k14_sync_group import SyncGroupResponse
from kaa.wire.messages.k15_describe_groups import DescribedGroup
from kaa.wire.messages.k16_list_groups import ListGroupsResponse
from kaa.wire.messages.k42_delete_groups import DeletableGroupResult
from kaa.wire.messages.k47_offset_delete import OffsetDeleteResponse
from kaa.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kaa.wire.messages.k69_consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.group.settings import ConsumerTimes, GroupSettings
    from kaa.coordinators.machine import Moment
    from kaa.coordinators.shard import Host
    from kaa.replication.partition import Partition
    from kaa.wire.messages.k08_offset_commit import OffsetCommitRequest
    from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequestGroup
    from kaa.wire.messages.k11_join_group import JoinGroupRequest
    from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
    from kaa.wire.messages.k13_leave_group import LeaveGroupRequest
    from kaa.wire.messages.k14_sync_group import SyncGroupRequest
    from kaa.wire.messages.k16_list_groups import ListGroupsRequest
    from kaa.wire.messages.k47_offset_delete import OffsetDeleteRequest
    from kaa.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

OFFSETS_TOPIC: Final = "__consumer_offsets"
# The feature of a cluster that has consumer groups, from level 1 on.
GROUP_FEATURE: Final = "group.version"
_LOG: Final = logging.getLogger(__name__)
# From this version of the heartbeat on, a new member makes its id itself.
_CLIENT_MADE_ID_VERSION: Final = 1


class GroupCoordinator:
    """See the module's text."""

    def __init__(
        self,
        host: Host,
        settings: Callable[[], GroupSettings],
        partition_count: Callable[[], int],
        new_id: Callable[[], str],
        consumer_times: Callable[[str], ConsumerTimes],
    ) -> None:
        self._host = host
        self._settings = settings
        self._partition_count = partition_count
        # What consumer groups know of topics; the broker tells it of changes.
        self.topics = GroupTopics()
        self.runtime: Runtime[GroupMachine] = Runtime(
            OFFSETS_TOPIC,
            lambda: GroupMachine(settings, new_id, self.topics, consumer_times),
            RECORD_TYPES,
            host,
        )

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self._partition_count())

    def leadership_changed(self, partition: Partition) -> None:
        self.runtime.leadership_changed(partition)

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """Nobody can read them any more: positions in them are dropped."""
        gone = tuple(topics)
        self.runtime.write_all(lambda machine, _: machine.topics_deleted(gone))

    def _refuse(self, refusal: CoordinatorError) -> asyncio.Future[Any]:
        refused: asyncio.Future[Any] = self._host.loop.create_future()
        refused.set_exception(refusal)
        return refused

    async def _write(self, group_id: str, command: Callable[[GroupMachine, Moment], Result]) -> Any:
        """CoordinatorError with the error that the client is told."""
        try:
            return await self.runtime.write(self.partition_for(group_id), command)
        except CoordinatorError as refusal:
            raise CoordinatorError(told(refusal.error)) from None

    # --- the classic protocol

    async def join(self, request: JoinGroupRequest, client: Client) -> JoinGroupResponse:
        settings = self._settings()
        error = Errors.NONE
        if not request.group_id:
            error = Errors.INVALID_GROUP_ID
        elif not (
            settings.session_timeout_ms_min
            <= request.session_timeout_ms
            <= settings.session_timeout_ms_max
        ):
            error = Errors.INVALID_SESSION_TIMEOUT
        if error is not Errors.NONE:
            return JoinGroupResponse(member_id=request.member_id, error_code=error)
        waiter = self._host.loop.create_future()
        self.runtime.write_to(
            self.partition_for(request.group_id),
            lambda machine, now: machine.join(request, client, waiter, now),
            waiter,
        )
        if request.reason:
            _LOG.info(
                "member %s joins group %s: %s", request.member_id, request.group_id, request.reason
            )
        try:
            response: JoinGroupResponse = await waiter
        except CoordinatorError as refusal:
            return JoinGroupResponse(error_code=told(refusal.error))
        return response

    async def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        if not request.group_id:
            return SyncGroupResponse(error_code=Errors.INVALID_GROUP_ID)
        waiter = self._host.loop.create_future()
        self.runtime.write_to(
            self.partition_for(request.group_id),
            lambda machine, now: machine.sync(request, waiter, now),
            waiter,
        )
        try:
            response: SyncGroupResponse = await waiter
        except CoordinatorError as refusal:
            return SyncGroupResponse(error_code=told(refusal.error))
        return response

    def heartbeat(self, request: HeartbeatRequest) -> asyncio.Future[Any]:
        """What `heartbeat_response` makes the response of."""
        if not request.group_id:
            return self._refuse(CoordinatorError(Errors.INVALID_GROUP_ID))
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: machine.heartbeat(request, now),
        )

    async def leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        if not request.group_id:
            return LeaveGroupResponse(error_code=Errors.INVALID_GROUP_ID, members=[])
        try:
            response: LeaveGroupResponse = await self._write(
                request.group_id, lambda machine, now: machine.leave(request, now)
            )
        except CoordinatorError as refusal:
            if refusal.error is not Errors.UNKNOWN_MEMBER_ID:
                return LeaveGroupResponse(error_code=refusal.error, members=[])
            members = [
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=Errors.UNKNOWN_MEMBER_ID,
                )
                for identity in request.members
            ]
            return LeaveGroupResponse(members=members)
        for identity, left in zip(request.members, response.members, strict=True):
            if identity.reason and left.error_code == Errors.NONE:
                name = identity.group_instance_id or identity.member_id
                _LOG.info("member %s left group %s: %s", name, request.group_id, identity.reason)
        return response

    # --- the consumer protocol

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> asyncio.Future[Any]:
        """What `consumer_heartbeat_response` makes the response of."""
        try:
            validate_heartbeat(request, client.api_version, self._settings().consumer_assignors)
        except CoordinatorError as refusal:
            return self._refuse(refusal)
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: machine.consumer.heartbeat(request, client, now),
        )

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> list[DescribedConsumerGroup]:
        described: list[DescribedConsumerGroup] = []
        named = []
        for group_id in group_ids:
            if group_id:
                named.append(group_id)
            else:
                error = Errors.INVALID_GROUP_ID
                described.append(DescribedConsumerGroup(group_id="", error_code=error, members=[]))
        for number, some in self._by_partition(named).items():
            describe = partial(GroupMachine.describe_consumer_groups, group_ids=some)
            try:
                described += self.runtime.read(number, describe)
            except CoordinatorError as refusal:
                described += [
                    DescribedConsumerGroup(group_id=one, error_code=refusal.error, members=[])
                    for one in some
                ]
        return described

    # --- offsets

    def commit_offsets(self, request: OffsetCommitRequest, api_version: int) -> asyncio.Future[Any]:
        """What `commit_response` makes the response of."""
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: machine.commit_offsets(request, api_version, now),
        )

    async def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        response: OffsetFetchResponseGroup
        try:
            if require_stable:
                response = await self._write(
                    request.group_id,
                    lambda machine, _: Result(
                        response=fetch_offsets(machine, request, is_stable=True)
                    ),
                )
            else:
                response = self.runtime.read(
                    self.partition_for(request.group_id),
                    lambda machine: fetch_offsets(machine, request, is_stable=False),
                )
        except CoordinatorError as refusal:
            return OffsetFetchResponseGroup(
                group_id=request.group_id, topics=[], error_code=refusal.error
            )
        return response

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        if not request.group_id:
            return OffsetDeleteResponse(error_code=Errors.INVALID_GROUP_ID, topics=[])
        try:
            response: OffsetDeleteResponse = await self._write(
                request.group_id, lambda machine, _: machine.delete_offsets(request)
            )
        except CoordinatorError as refusal:
            return OffsetDeleteResponse(error_code=refusal.error, topics=[])
        return response

    # --- groups

    def _by_partition(self, group_ids: Iterable[str]) -> dict[int, list[str]]:
        found: dict[int, list[str]] = defaultdict(list)
        for group_id in group_ids:
            found[self.partition_for(group_id)].append(group_id)
        return found

    def describe(self, group_ids: Iterable[str], api_version: int) -> list[DescribedGroup]:
        described: list[DescribedGroup] = []
        for number, some in self._by_partition(group_ids).items():
            describe = partial(
                GroupMachine.describe_groups, group_ids=some, api_version=api_version
            )
            try:
                described += self.runtime.read(number, describe)
            except CoordinatorError as refusal:
                described += [
                    DescribedGroup(group_id=one, error_code=refusal.error, members=[])
                    for one in some
                ]
        return described

    def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        response = ListGroupsResponse(groups=[])
        for shard in self.runtime:
            if shard.state is ShardState.LOADING:
                return ListGroupsResponse(error_code=Errors.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
            if shard.state is ShardState.ACTIVE:
                response.groups += shard.read(
                    lambda machine: machine.list_groups(request.states_filter, request.types_filter)
                )
        return response

    async def delete_groups(self, group_ids: Iterable[str]) -> list[DeletableGroupResult]:
        results: list[DeletableGroupResult] = []
        for some in self._by_partition(group_ids).values():
            delete = partial(_delete_groups, some)
            try:
                results += await self._write(some[0], delete)
            except CoordinatorError as refusal:
                results += [
                    DeletableGroupResult(group_id=one, error_code=refusal.error) for one in some
                ]
        return results


def validate_heartbeat(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]
) -> None:
    """CoordinatorError for a request that makes no sense, whatever the group is."""
    epoch = request.member_epoch
    needs_id = api_version >= _CLIENT_MADE_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH
    problem = None
    if needs_id and not request.member_id.strip():
        problem = "A member id is missing."
    elif not request.group_id.strip():
        problem = "A group id is missing."
    elif request.instance_id is not None and not request.instance_id.strip():
        problem = "The instance id is empty."
    elif request.rack_id is not None and not request.rack_id.strip():
        problem = "The rack id is empty."
    elif epoch == JOIN_EPOCH:
        problem = _join_problem(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        problem = "Only a static member leaves for a moment."
    elif epoch < STATIC_LEAVE_EPOCH:
        problem = f"There is no epoch {epoch}."
    if problem is not None:
        raise CoordinatorError(Errors.INVALID_REQUEST, problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise CoordinatorError(
            Errors.UNSUPPORTED_ASSIGNOR,
            f"There is no assignor {request.server_assignor}; there are {', '.join(assignors)}.",
        )


def _join_problem(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "Whoever joins says its rebalance timeout."
    if request.topic_partitions is None or request.topic_partitions:
        return "Whoever joins owns no partitions."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Whoever joins says what it subscribes to."
    return None


def _delete_groups(group_ids: list[str], machine: GroupMachine, _: Moment) -> Result:
    return machine.delete_groups(group_ids)


def heartbeat_response(done: asyncio.Future[Any]) -> HeartbeatResponse:
    """The response to a heartbeat of the classic protocol."""
    try:
        response: HeartbeatResponse = done.result()
    except CoordinatorError as refusal:
        # Nobody loses its place because the group is being loaded.
        is_loading = refusal.error is Errors.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=Errors.NONE if is_loading else told(refusal.error))
    return response


def consumer_heartbeat_response(done: asyncio.Future[Any]) -> ConsumerGroupHeartbeatResponse:
    """The response to a heartbeat of the consumer protocol."""
    try:
        response: ConsumerGroupHeartbeatResponse = done.result()
    except CoordinatorError as refusal:
        error = told(refusal.error)
        # An error of the log means nothing to the client, nor does its text.
        message = (refusal.message or error.message) if error is refusal.error else None
        return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)
    return response


def commit_response(
    request: OffsetCommitRequest, done: asyncio.Future[Any]
) -> OffsetCommitResponse:
    """The response to a commit of offsets; a refusal is the same error for every partition."""
    try:
        response: OffsetCommitResponse = done.result()
    except CoordinatorError as refusal:
        return refused_commit(request, told(refusal.error))
    return response


def refused_commit(request: OffsetCommitRequest, error: Errors) -> OffsetCommitResponse:
    """The same error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
