"""The group coordinator of a broker, as handlers call it: requests in, responses out.

Each request goes to the shard of its group. What comes back is a future of the finished response,
or of the handler's part of it where the handler makes the response in turns (`fetch_offsets`). The
handler says how a refusal reads in its API (`refused`), how the answer of the machine does
(`respond`) where that is not the response itself, and how a group or an offset is shown
(`describe`, `show`). Why members come and go, as far as they say (KIP-800), is logged.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kaa.coordinators.group.kinds import GROUP_KINDS, GROUP_STATES, RECORD_TYPES, known_names
from kaa.coordinators.group.offsets.commands import commit_offsets, delete_offsets
from kaa.coordinators.group.offsets.fetch import fetch_offsets
from kaa.coordinators.group.offsets.transactional import commit_offsets as commit_transactional
from kaa.coordinators.group.share.states import ShareStates
from kaa.coordinators.group.streams.validate import validate_streams_heartbeat
from kaa.coordinators.group.topics import GroupTopics
from kaa.coordinators.group.validate import (
    share_heartbeat_problem,
    validate_heartbeat,
    validate_join,
)
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.coordinators.promise import Promise
from kaa.coordinators.runtime import Runtime, partition_for
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX, RECORDS_PER_PIECE
from kaa.model.pieces import distinct, in_pieces
from kaa.model.topics import CONSUMER_OFFSETS
from kaa.model.turns import Turns, in_turns
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.machine import GroupMachine
    from kaa.coordinators.group.offsets.fetch import FetchedTopic, Show
    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.group.settings import (
        ConsumerTimes,
        GroupSettings,
        ShareTimes,
        StreamsTimes,
    )
    from kaa.coordinators.group.share.groups import InitialiseState
    from kaa.coordinators.group.streams.groups import StreamsHeartbeat
    from kaa.coordinators.loading import Host
    from kaa.coordinators.machine import Moment
    from kaa.coordinators.shard import Command, TransactionalWriter
    from kaa.coordinators.share.persister import Persister
    from kaa.model.errands import Errands
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequestGroup
    from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
    from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
    from kaa.wire.messages.k13_leave_group import LeaveGroupRequest
    from kaa.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse
    from kaa.wire.messages.k16_list_groups import ListGroupsRequest
    from kaa.wire.messages.k28_txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
    )
    from kaa.wire.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from kaa.wire.messages.k68_consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from kaa.wire.messages.k76_share_group_heartbeat import (
        ShareGroupHeartbeatRequest,
        ShareGroupHeartbeatResponse,
    )
    from kaa.wire.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest
    from kaa.wire.primitives import Uuid

R = TypeVar("R")
Shown = TypeVar("Shown")

# The feature of a cluster that has consumer groups, from level 1 on.
GROUP_FEATURE: Final = "group.version"
# The same for streams groups.
STREAMS_FEATURE: Final = "streams.version"
_LOG: Final = logging.getLogger(__name__)


def machine_class() -> type[GroupMachine]:
    """The machine of groups, which is loaded with the first partition of them: fifty modules."""
    from kaa.coordinators.group.machine import GroupMachine

    return GroupMachine


class GroupCoordinator:
    """The group coordinator as handlers call it. A call gives a future, refusals included."""

    def __init__(
        self,
        host: Host,
        settings: Callable[[], GroupSettings],
        partition_count: Callable[[], int],
        new_id: Callable[[], str],
        consumer_times: Callable[[str], ConsumerTimes],
        share_times: Callable[[str], ShareTimes],
        streams_times: Callable[[str], StreamsTimes],
        persister: Persister,
        errands: Errands,
    ) -> None:
        self._host = host
        self._settings = settings
        self._partition_count = partition_count
        self._errands = errands
        # What consumer groups know of topics; the broker tells it of changes.
        self.topics = GroupTopics()
        self.runtime: Runtime[GroupMachine] = Runtime(
            CONSUMER_OFFSETS,
            lambda: machine_class()(
                settings, new_id, self.topics, consumer_times, share_times, streams_times
            ),
            RECORD_TYPES,
            host,
            self._perform,
        )
        self._states = ShareStates(host, self.runtime, self.partition_for, persister)

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self._partition_count())

    def topics_deleted(self, topics: Mapping[Uuid, str]) -> None:
        """Nobody can read them any more: positions in them are dropped."""
        ids, names = tuple(topics), tuple(topics.values())
        self.runtime.write_all(lambda machine, _: machine.topics_deleted(names, ids))

    # --- the classic protocol

    def join(
        self,
        request: JoinGroupRequest,
        client: Client,
        refused: Callable[[CoordinatorError], JoinGroupResponse],
    ) -> asyncio.Future[JoinGroupResponse]:
        answer = Promise(self._host.loop, refused)
        try:
            validate_join(request, self._settings())
        except CoordinatorError as error:
            return answer.refuse(error)
        self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: machine.join(request, client, answer, now),
            answer,
        )
        if request.reason:
            _LOG.info(
                "member %s joins group %s: %s", request.member_id, request.group_id, request.reason
            )
        return answer

    def sync(
        self, request: SyncGroupRequest, refused: Callable[[CoordinatorError], SyncGroupResponse]
    ) -> asyncio.Future[SyncGroupResponse]:
        answer = Promise(self._host.loop, refused)
        if not request.group_id:
            return answer.refuse(CoordinatorError(Errors.INVALID_GROUP_ID))
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: machine.sync(request, answer, now),
            answer,
        )

    def heartbeat(
        self,
        request: HeartbeatRequest,
        refused: Callable[[CoordinatorError], R],
        respond: Callable[[Errors], R],
    ) -> asyncio.Future[R]:
        answer = Promise(self._host.loop, refused, respond)
        if not request.group_id:
            return answer.refuse(CoordinatorError(Errors.INVALID_GROUP_ID))
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: machine.heartbeat(request, now),
            answer,
        )

    def leave(
        self,
        request: LeaveGroupRequest,
        refused: Callable[[CoordinatorError], R],
        respond: Callable[[list[Errors]], R],
    ) -> asyncio.Future[R]:
        """`respond` gets the error of each member."""
        answer = Promise(self._host.loop, refused, partial(_left, request, respond))
        if not request.group_id:
            return answer.refuse(CoordinatorError(Errors.INVALID_GROUP_ID))
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: machine.leave(request, now),
            answer,
        )

    # --- the consumer protocol

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        refused: Callable[[CoordinatorError], ConsumerGroupHeartbeatResponse],
    ) -> asyncio.Future[ConsumerGroupHeartbeatResponse]:
        answer = Promise(self._host.loop, refused)
        try:
            validate_heartbeat(request, client.api_version, self._settings().consumer_assignors)
        except CoordinatorError as error:
            return answer.refuse(error)
        return self.runtime.write(
            self.partition_for(request.group_id),
            self._prepared(
                request.subscribed_topic_names,
                lambda machine, now: machine.consumer.heartbeat(request, client, now),
            ),
            answer,
        )

    def _prepared(
        self,
        names: list[str] | None,
        command: Command[GroupMachine],
    ) -> Command[GroupMachine]:
        """The command, after what it needs to know of these topics was found out in pieces."""
        topics = self.topics
        if names is None:
            return command
        if len(names) <= NAMES_ANSWERED_PER_SLICE_MAX and topics.is_prepared(names):
            return command

        def prepare(machine: GroupMachine, now: Moment) -> Pieces[CoordinatorResult]:
            yield from topics.prepare(names)
            return (yield from in_pieces(command(machine, now)))

        return prepare

    # --- share groups

    def share_heartbeat(
        self,
        request: ShareGroupHeartbeatRequest,
        client: Client,
        refused: Callable[[CoordinatorError], ShareGroupHeartbeatResponse],
    ) -> asyncio.Future[ShareGroupHeartbeatResponse]:
        answer = Promise(self._host.loop, refused)
        problem = share_heartbeat_problem(request)
        if problem is not None:
            return answer.refuse(CoordinatorError(Errors.INVALID_REQUEST, problem))
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: machine.share.heartbeat(request, client, now),
            answer,
        )

    def _perform(self, effect: InitialiseState) -> None:
        self._errands.begin("the initialisation of share states", self._states.initialise(effect))

    # --- streams groups

    def streams_heartbeat(
        self,
        request: StreamsGroupHeartbeatRequest,
        client: Client,
        refused: Callable[[CoordinatorError], R],
        respond: Callable[[StreamsHeartbeat], R],
    ) -> asyncio.Future[R]:
        answer = Promise(self._host.loop, refused, respond)
        try:
            validate_streams_heartbeat(request)
        except CoordinatorError as error:
            return answer.refuse(error)
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: machine.streams.heartbeat(request, client, now),
            answer,
        )

    # --- offsets

    def commit_offsets(
        self,
        request: OffsetCommitRequest,
        api_version: int,
        refused: Callable[[CoordinatorError], R],
    ) -> asyncio.Future[OffsetCommitResponse | R]:
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: commit_offsets(machine, request, api_version, now),
            Promise(self._host.loop, refused),
        )

    def commit_transactional_offsets(
        self,
        request: TxnOffsetCommitRequest,
        writer: TransactionalWriter,
        refused: Callable[[CoordinatorError], R],
    ) -> asyncio.Future[TxnOffsetCommitResponse | R]:
        """Stores offsets of partitions that exist, which count when the transaction commits."""
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, now: commit_transactional(machine, request, now),
            Promise(self._host.loop, refused),
            writer,
        )

    def fetch_offsets(
        self,
        request: OffsetFetchRequestGroup,
        show: Show[Shown],
        *,
        require_stable: bool,
    ) -> asyncio.Future[list[FetchedTopic[Shown]] | Errors]:
        number = self.partition_for(request.group_id)
        answer: Promise[list[FetchedTopic[Shown]] | Errors]
        answer = Promise(self._host.loop, lambda refusal: refusal.error)
        if require_stable:
            return self.runtime.write(
                number, lambda machine, _: _stable_offsets(machine, request, show), answer
            )
        return self.runtime.read(
            number, lambda machine: fetch_offsets(machine, request, show, is_stable=False), answer
        )

    def delete_offsets(
        self,
        request: OffsetDeleteRequest,
        refused: Callable[[CoordinatorError], OffsetDeleteResponse],
    ) -> asyncio.Future[OffsetDeleteResponse]:
        answer = Promise(self._host.loop, refused)
        if not request.group_id:
            return answer.refuse(CoordinatorError(Errors.INVALID_GROUP_ID))
        return self.runtime.write(
            self.partition_for(request.group_id),
            lambda machine, _: delete_offsets(machine, request),
            answer,
        )

    # --- groups

    def describe(
        self,
        group_id: str,
        describe: Callable[[Group | None], Pieces[R]],
        refused: Callable[[CoordinatorError], R],
        *,
        allows_empty_id: bool,
    ) -> asyncio.Future[R]:
        """What `describe` makes of the group as it is committed, or of there being none."""
        answer = Promise(self._host.loop, refused)
        if not group_id and not allows_empty_id:
            return answer.refuse(CoordinatorError(Errors.INVALID_GROUP_ID))
        return self.runtime.read(
            self.partition_for(group_id),
            lambda machine: describe(machine.groups.committed(group_id)),
            answer,
        )

    @property
    def default_assignor(self) -> str:
        """The one of consumer groups whose members do not name any."""
        return self._settings().consumer_assignors[0]

    def list_groups(
        self,
        request: ListGroupsRequest,
        show: Callable[[Group], Shown],
        refused: Callable[[CoordinatorError], R],
        respond: Callable[[list[Shown]], R],
    ) -> asyncio.Future[R]:
        """What `respond` makes of all that `show` made of groups."""
        return self.runtime.read_all(
            lambda machines: _listed(machines, request, show),
            Promise(self._host.loop, refused, respond),
        )

    def delete_groups(
        self, group_ids: Iterable[str], respond: Callable[[dict[str, Errors]], Pieces[R]]
    ) -> asyncio.Future[R]:
        """What `respond` makes of how it went with each. The groups whose share state could not be
        deleted come first, then the others by partition.
        """
        answer: Promise[R] = Promise(self._host.loop)
        work = self._delete_groups(group_ids, respond, answer)
        self._errands.begin("the deletion of groups", work)
        return answer

    async def _delete_groups(
        self,
        group_ids: Iterable[str],
        respond: Callable[[dict[str, Errors]], Pieces[R]],
        answer: Promise[R],
    ) -> None:
        """Share state is deleted first, perhaps on other brokers. Groups are deleted to the end,
        even if the client has gone.
        """
        try:
            errors: dict[str, Errors] = {}
            wanted = await self._without_share_state(await in_turns(distinct(group_ids)), errors)
            for number, some in wanted.items():
                deleted = Promise(self._host.loop, partial(_each_refused, some))
                await self.runtime.write(number, partial(_delete_groups, some), deleted)
                errors |= deleted.result()
            answer.keep(await in_turns(respond(errors)))
        except Exception as fault:  # noqa: BLE001 - it costs the one who waits.
            if not answer.done():
                answer.set_exception(fault)
        finally:
            # The node stops, and nobody ends it otherwise.
            answer.cancel()

    async def _without_share_state(
        self, group_ids: Iterable[str], errors: dict[str, Errors]
    ) -> dict[int, list[str]]:
        """The groups that may be deleted, by partition; adds why the others may not."""
        wanted: dict[int, list[str]] = defaultdict(list)
        turns = Turns(RECORDS_PER_PIECE)
        for group_id in group_ids:
            await turns.next()
            try:
                await self._states.delete(group_id)
            except CoordinatorError as refusal:
                errors[group_id] = refusal.for_clients().error
            else:
                wanted[self.partition_for(group_id)].append(group_id)
        return wanted


def _listed(
    machines: Iterable[GroupMachine],
    request: ListGroupsRequest,
    show: Callable[[Group], Shown],
) -> Pieces[list[Shown]]:
    states = yield from known_names(request.states_filter, GROUP_STATES)
    types = yield from known_names(request.types_filter, GROUP_KINDS)
    listed: list[Shown] = []
    looked_at = 0
    for machine in machines:
        listed += yield from machine.list_groups(states, types, show)
        looked_at += len(machine.groups)
        if looked_at >= RECORDS_PER_PIECE:
            looked_at = 0
            yield
    return listed


def _stable_offsets(
    machine: GroupMachine,
    request: OffsetFetchRequestGroup,
    show: Show[Shown],
) -> Pieces[CoordinatorResult]:
    found = yield from fetch_offsets(machine, request, show, is_stable=True)
    return CoordinatorResult(response=found)


def _left(
    request: LeaveGroupRequest, respond: Callable[[list[Errors]], R], errors: list[Errors]
) -> R:
    for identity, error in zip(request.members, errors, strict=True):
        if identity.reason and error is Errors.NONE:
            name = identity.group_instance_id or identity.member_id
            _LOG.info("member %s left group %s: %s", name, request.group_id, identity.reason)
    return respond(errors)


def _each_refused(group_ids: list[str], error: CoordinatorError) -> dict[str, Errors]:
    return dict.fromkeys(group_ids, error.error)


def _delete_groups(
    group_ids: list[str], machine: GroupMachine, _: Moment
) -> Pieces[CoordinatorResult]:
    return machine.delete_groups(group_ids)
