"""A group machine on a bench: driven as a shard drives it, but nothing happens by itself.

Records are appended at once and committed at once, unless the test holds commits back. Every answer
is kept under the name that the test gave to the request.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from kaa.coordinators.group.classic.group import ClassicGroup
from kaa.coordinators.group.kinds import RECORD_TYPES
from kaa.coordinators.group.machine import GroupMachine
from kaa.coordinators.group.offsets.commands import commit_offsets
from kaa.coordinators.group.outcome import Client
from kaa.coordinators.group.settings import GroupSettings
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult, Moment, WritableRecord
from kaa.model.pieces import finish, in_pieces
from kaa.wire.errors import Errors
from kaa.wire.messages.embedded import ConsumerProtocolSubscription
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kaa.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from kaa.coordinators.group.offsets.committed import CommittedOffset
    from kaa.coordinators.shard import Command
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue

START_WALL_MS = 1_700_000_000_000
GROUP = "g"


def subscription(*topics: str) -> bytes:
    return b"\0\0" + ConsumerProtocolSubscription(topics=list(topics)).encode(0)


class Fetched(NamedTuple):
    """The offset of a partition as it is fetched; -1 for none."""

    number: int
    offset: int
    leader_epoch: int
    error: Errors


def fetched(number: int, committed: CommittedOffset | None, error: Errors) -> Fetched:
    if committed is None:
        return Fetched(number, -1, -1, error)
    return Fetched(number, committed.offset, committed.leader_epoch, error)


class Waiting(NamedTuple):
    """A request that a machine may leave waiting. After it has failed, replies go nowhere."""

    bench: GroupBench
    name: str

    def keep(self, answer: Any, /) -> None:
        if self.name not in self.bench.failed:
            self.bench.answer(self.name, answer)


class GroupBench:
    """See the module's text."""

    def __init__(self, **settings: Any) -> None:
        self.settings = GroupSettings(**settings)
        self.ids = count(1)
        self.now_ms = 0
        self.log: list[WritableRecord] = []
        self.is_holding = False
        self.answers: dict[str, Any] = {}
        # In the order in which they left.
        self.sent_answers: list[tuple[str, Any]] = []
        self._waiting: list[tuple[int, str | None, CoordinatorResult]] = []
        # Requests that failed: replies to them go nowhere.
        self.failed: set[str] = set()
        self._start()

    def _start(self) -> None:
        self.machine = self._machine()
        self.machine.timeline.commit(len(self.log))
        for offset, record in enumerate(self.log):
            found = RECORD_TYPES.decode(*record.encode())
            assert found is not None
            self.machine.timeline.move(offset)
            self._replay(offset, *found)
        self._run(None, lambda machine, now: machine.loaded(now))

    def _replay(self, offset: int, key: CoordinatorKey, value: CoordinatorValue | None) -> None:
        for _ in self.machine.replay(offset, key, value, -1, -1) or ():
            pass

    def _machine(self) -> GroupMachine:
        return GroupMachine(lambda: self.settings, lambda: str(next(self.ids)))

    @property
    def now(self) -> Moment:
        return Moment(START_WALL_MS + self.now_ms, self.now_ms)

    # --- driving

    def run(self, name: str, command: Command[GroupMachine]) -> Any:
        """The answer, if it has left already."""
        self.answers.pop(name, None)
        self.failed.discard(name)
        self._run(name, command)
        return self.answers.get(name)

    def _run(self, name: str | None, command: Command[GroupMachine]) -> None:
        timeline = self.machine.timeline
        timeline.move(len(self.log))
        try:
            result = finish(in_pieces(command(self.machine, self.now)))
        except CoordinatorError as refusal:
            timeline.revert(len(self.log))
            if name is not None:
                self.answer(name, refusal.error)
            return
        for record in result.records:
            offset = len(self.log)
            if result.is_replayed:
                timeline.move(offset)
                self._replay(offset, record.key, record.value)
            self.log.append(record)
        for reply in result.replies:
            reply.waiter.keep(reply.response)
        self._waiting.append((len(self.log), name, result))
        if not self.is_holding:
            self.commit()

    def answer(self, name: str, response: Any) -> None:
        self.answers[name] = response
        self.sent_answers.append((name, response))

    def commit(self) -> None:
        """All that was appended is committed."""
        self.is_holding = False
        while self._waiting:
            _, name, result = self._waiting.pop(0)
            self.machine.timeline.commit(len(self.log))
            self._finish(name, result, Errors.NONE)

    def fail(self, error: Errors = Errors.NOT_ENOUGH_REPLICAS) -> None:
        """All that was held back failed to be appended."""
        self.is_holding = False
        offset = self.machine.timeline.committed_offset
        self.machine.timeline.revert(offset)
        del self.log[offset:]
        failed, self._waiting = self._waiting, []
        for _, name, result in failed:
            self._finish(name, result, error)

    def _finish(self, name: str | None, result: CoordinatorResult, error: Errors) -> None:
        if result.then is not None:
            self._run(None, lambda machine, now: machine.appended(result.then, error, now))
        if name is None or name in self.answers:
            return
        if error is not Errors.NONE:
            self.answer(name, error)
            self.failed.add(name)
        elif result.response is not None:
            self.answer(name, result.response)

    def advance(self, milliseconds: int) -> None:
        """Lets time pass, deadline by deadline."""
        end_ms = self.now_ms + milliseconds
        while True:
            deadline_ms = self.machine.timers.next_deadline_ms
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self._run(None, lambda machine, now: machine.expire(now) or CoordinatorResult())
        self.now_ms = end_ms

    def lose_leadership(self) -> None:
        """What is not committed is gone, and another broker coordinates the groups."""
        for reply in self.machine.unloaded():
            reply.waiter.keep(reply.response)
        del self.log[self.machine.timeline.committed_offset :]
        self._waiting = []
        self.is_holding = False

    def restart(self) -> None:
        """Leadership is lost and won again: memory is read from the log."""
        self.lose_leadership()
        self._start()

    def load(self, *records: WritableRecord) -> None:
        """Begins anew with a log that somebody else wrote."""
        self.log = list(records)
        self._start()

    # --- requests

    def join(
        self,
        name: str,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocols: Iterable[str] = ("range",),
        topics: Iterable[str] = ("t",),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        metadata: bytes | None = None,
    ) -> Any:
        data = subscription(*topics) if metadata is None else metadata
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=one, metadata=data) for one in protocols],
        )
        client = Client(name, "/127.0.0.1", version)
        waiting = Waiting(self, name)
        return self.run(name, lambda machine, now: machine.join(request, client, waiting, now))

    def join_new(self, name: str, **fields: Any) -> Any:
        """A dynamic member comes, and comes again with the id that it is given."""
        member_id = self.join(name, **fields).member_id
        return self.join(name, member_id, **fields)

    def sync(
        self,
        name: str,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Any:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=one, assignment=data)
                for one, data in (assignments or {}).items()
            ],
        )
        waiting = Waiting(self, name)
        return self.run(name, lambda machine, now: machine.sync(request, waiting, now))

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        *,
        group: str = GROUP,
        instance: str | None = None,
        name: str = "heartbeat",
    ) -> Errors:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        error: Errors = self.run(name, lambda machine, now: machine.heartbeat(request, now))
        return error

    def leave(self, *identities: tuple[str, str | None], group: str = GROUP) -> Any:
        request = LeaveGroupRequest(
            group_id=group,
            members=[
                MemberIdentity(member_id=member_id, group_instance_id=instance)
                for member_id, instance in identities
            ],
        )
        return self.run("leave", lambda machine, now: machine.leave(request, now))

    def commit_offset(
        self,
        topic: str = "t",
        partition: int = 0,
        offset: int = 1,
        *,
        group: str = GROUP,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = None,
        retention_ms: int = -1,
        version: int = 8,
        name: str = "commit",
    ) -> Errors | None:
        """The error of the only partition; None if the answer waits."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        answer = self.run(name, lambda machine, now: commit_offsets(machine, request, version, now))
        if answer is None or isinstance(answer, Errors):
            return answer
        return code(answer.topics[0].partitions[0].error_code)

    # --- looking

    @property
    def group(self) -> Any:
        return self.machine.groups.get(GROUP)

    @property
    def classic_groups(self) -> dict[str, ClassicGroup]:
        groups = self.machine.groups.values()
        return {group.group_id: group for group in groups if isinstance(group, ClassicGroup)}

    @property
    def state(self) -> str:
        return "absent" if self.group is None else str(self.group.state.value)

    def stable(self, *names: str, **fields: Any) -> dict[str, str]:
        """A group of dynamic members that is stable; their ids by name."""
        for name in names:
            self.join_new(name, **fields)
        self.advance(self.settings.initial_rebalance_delay_ms * 2)
        ids = {name: self.answers[name].member_id for name in names}
        generation = self.group.generation_id
        leader = self.group.leader_id
        for name, member_id in ids.items():
            given = {one: one.encode() for one in ids.values()} if member_id == leader else None
            self.sync(name, member_id, generation, given)
        assert self.state == "Stable"
        return ids


def code(number: int) -> Errors:
    return next(error for error in Errors if error == number)
