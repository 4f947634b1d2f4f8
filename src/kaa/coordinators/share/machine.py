"""The share coordinator of one partition of the state topic, as a machine.

A share partition is initialised by the group coordinator with a state epoch, and from then on read
and written by the leader of the partition. Two epochs keep old writers out: the state epoch rises
when the group's offsets are altered, the leader epoch when leadership moves. The first read of a
new leader writes its epoch, so that nothing the old leader still sends counts.

Two things happen by themselves. A state that has had no snapshot for a while gets one although
nothing changed (a *cold* snapshot): its old one would hold back the deletion of the log. And the
log before the oldest snapshot that counts is deleted (`redundant_offset`, by the coordinator).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.coordinators.share.batches import combine
from kaa.coordinators.share.state import (
    UNINITIALISED,
    UNKNOWN_COUNT,
    UNKNOWN_START_OFFSET,
    SharePartitionKey,
    ShareState,
    batches_of,
    new_state,
    state_of_update,
    state_tombstone,
    update_record,
)
from kaa.coordinators.timeline import Timeline, TimelineDict
from kaa.coordinators.timers import Timers
from kaa.model.pieces import attempted, begun, finish
from kaa.model.topics import NO_EPOCH
from kaa.wire.errors import Errors
from kaa.wire.messages.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaa.coordinators.machine import Moment, NewRecord, Reply
    from kaa.coordinators.share.settings import ShareStateSettings
    from kaa.coordinators.share.state import AnyBatch
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue

# An epoch that fences nobody and is fenced by nobody.
_NO_STATE: Final = "The share partition has no state: the group coordinator initialises it first."


@dataclass(frozen=True, slots=True)
class ColdSnapshotsDue:
    """It is time to look for states that have had no snapshot for a while."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """What a share-partition leader writes."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    # As the message has them that brought the change.
    batches: Sequence[AnyBatch]


class ShareMachine:
    """Decides for the share partitions of one shard. Every command is about one share partition,
    and returns records with an answer; only `replay` changes state.
    """

    def __init__(
        self,
        settings: Callable[[], ShareStateSettings],
        partition_count: Callable[[Uuid], int],
    ) -> None:
        """`partition_count` says how many partitions a topic has, 0 if there is no such topic."""
        self.timeline = Timeline()
        self.timers: Timers[object] = Timers()
        self.settings = settings
        self._partition_count = partition_count
        self.states: TimelineDict[SharePartitionKey, ShareState] = TimelineDict(self.timeline)
        # The offset of the last snapshot or tombstone, under one key, so that it can be undone.
        self._last: TimelineDict[None, int] = TimelineDict(self.timeline)

    # --- replay

    def replay(
        self,
        offset: int,
        key: CoordinatorKey,
        value: CoordinatorValue | None,
        producer_id: int,
        producer_epoch: int,
    ) -> Pieces[None] | None:
        assert isinstance(key, (ShareSnapshotKey, ShareUpdateKey))
        name = SharePartitionKey(key.group_id, key.topic_id, key.partition)
        if isinstance(key, ShareSnapshotKey):
            self._last[None] = offset
            if value is None:
                self.states.pop(name)
        if isinstance(value, ShareSnapshotValue | ShareUpdateValue):
            return begun(self._replay(name, value, offset))
        return None

    def _replay(
        self, name: SharePartitionKey, value: ShareSnapshotValue | ShareUpdateValue, offset: int
    ) -> Pieces[None]:
        known = self.states.get(name)
        if isinstance(value, ShareUpdateValue):
            work = state_of_update(value) if known is None else known.replay_update(value)
        elif known is None:
            work = new_state(value, offset)
        else:
            work = known.replay_snapshot(value, offset, self.settings().updates_per_snapshot)
        self.states[name] = yield from work

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> Iterable[None]:
        """Nobody writes share state in a transaction."""
        return ()

    # --- life

    def loaded(self, now: Moment) -> CoordinatorResult:
        self._schedule(now)
        return CoordinatorResult()

    def unloaded(self) -> Sequence[Reply]:
        return ()

    def appended(self, then: Any, error: Errors, now: Moment) -> CoordinatorResult:
        return CoordinatorResult()

    def expire(self, now: Moment) -> CoordinatorResult | None:
        if self.timers.take_due(now.monotonic_ms) is None:
            return None
        self._schedule(now)
        return self.snapshot_cold(now)

    def _schedule(self, now: Moment) -> None:
        deadline_ms = now.monotonic_ms + self.settings().cold_snapshot_interval_ms
        self.timers.schedule("cold", deadline_ms, ColdSnapshotsDue())

    def snapshot_cold(self, now: Moment) -> CoordinatorResult:
        interval_ms = self.settings().cold_snapshot_interval_ms
        if all(one.create_timestamp_ms != one.write_timestamp_ms for one in self.states.values()):
            # Each has had a cold snapshot and has not been written since.
            return CoordinatorResult()
        records = [
            finish(
                state._replace(
                    snapshot_epoch=state.snapshot_epoch + 1, write_timestamp_ms=now.wall_ms
                ).snapshot(key)
            )
            for key, state in self.states.items()
            # One of the future is due too: the date was set back since.
            if not 0 <= now.wall_ms - state.write_timestamp_ms < interval_ms
        ]
        return CoordinatorResult(records, is_atomic=False)

    # --- commands; CoordinatorError refuses one

    def initialise(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, now: Moment
    ) -> CoordinatorResult:
        """A fresh start, whatever was known; without a start offset the leader chooses it."""
        self._check_number(key)
        known = self.states.get(key)
        if known is not None:
            _fence_state(known, state_epoch)
        self._check_topic(key)
        is_unknown = start_offset == UNKNOWN_START_OFFSET
        state = ShareState(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if is_unknown else 0,
            batches=(),
            create_timestamp_ms=now.wall_ms,
            write_timestamp_ms=now.wall_ms,
        )
        return CoordinatorResult([finish(state.snapshot(key))], Errors.NONE)

    def read(
        self, key: SharePartitionKey, leader_epoch: int, now: Moment
    ) -> CoordinatorResult | Pieces[CoordinatorResult]:
        """The state; a leader that reads for the first time fences the leaders before it."""
        self._check_number(key)
        state = self.states.get(key)
        if state is None:
            raise CoordinatorError(Errors.INVALID_REQUEST, _NO_STATE)
        _fence_leader(state, leader_epoch)
        self._check_topic(key)
        if leader_epoch in {NO_EPOCH, state.leader_epoch_max}:
            return CoordinatorResult(response=state)
        change = StateChange(
            state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ()
        )
        return attempted(_result(self._record(key, state, change, leader_epoch, now), state))

    def write(
        self, key: SharePartitionKey, change: StateChange, now: Moment
    ) -> CoordinatorResult | Pieces[CoordinatorResult]:
        self._check_number(key)
        state = self.states.get(key)
        if state is None:
            raise CoordinatorError(Errors.INVALID_REQUEST, _NO_STATE)
        _fence_leader(state, change.leader_epoch)
        _fence_state(state, change.state_epoch)
        self._check_topic(key)
        change = _not_behind(state, change)
        record = self._record(key, state, change, state.leader_epoch, now)
        return attempted(_result(record, Errors.NONE))

    def _record(
        self,
        key: SharePartitionKey,
        state: ShareState,
        change: StateChange,
        leader_epoch: int,
        now: Moment,
    ) -> Pieces[NewRecord]:
        """An update, or a snapshot if there were enough of them."""
        reported = yield from batches_of(change.batches)
        if state.updates < self.settings().updates_per_snapshot:
            return (
                yield from update_record(
                    key,
                    snapshot_epoch=state.snapshot_epoch,
                    leader_epoch=leader_epoch,
                    start_offset=change.start_offset,
                    delivery_complete_count=change.delivery_complete_count,
                    batches=(yield from combine((), reported, change.start_offset)),
                )
            )
        start = change.start_offset
        if start == UNKNOWN_START_OFFSET:
            start = state.start_offset
        whole = state._replace(
            snapshot_epoch=state.snapshot_epoch + 1,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=change.delivery_complete_count,
            batches=(yield from combine(state.batches, reported, start)),
            create_timestamp_ms=now.wall_ms,
            write_timestamp_ms=now.wall_ms,
        )
        return (yield from whole.snapshot(key))

    def delete(self, key: SharePartitionKey) -> CoordinatorResult:
        """Nothing is left; nothing happens if there was nothing."""
        self._check_number(key)
        self._check_topic(key)
        return CoordinatorResult([state_tombstone(key)] if key in self.states else (), Errors.NONE)

    def summary(self, key: SharePartitionKey) -> CoordinatorResult:
        """The state, of which only the numbers are asked for."""
        self._check_number(key)
        self._check_topic(key)
        return CoordinatorResult(response=self.states.get(key) or UNINITIALISED)

    def topics_deleted(self, topic_ids: Iterable[Uuid]) -> Pieces[CoordinatorResult]:
        gone = frozenset(topic_ids)
        # Every shard of the broker hears of it in the same turn, and looks in one of its own.
        yield
        records = [state_tombstone(key) for key in self.states if key.topic_id in gone]
        return CoordinatorResult(records, is_atomic=False)

    # --- questions

    @property
    def redundant_offset(self) -> int | None:
        """Nothing in the log before it is needed any more; None if all of it is."""
        last = self._last.committed(None)
        if last is None:
            return None
        offsets = [
            state.snapshot_offset
            for _, state in self.states.committed_items()
            if state.snapshot_offset is not None
        ]
        found = min(offsets, default=last)
        return found if found > 0 else None

    def _check_number(self, key: SharePartitionKey) -> None:
        if key.partition < 0:
            raise CoordinatorError(Errors.INVALID_REQUEST, "The partition number is negative.")

    def _check_topic(self, key: SharePartitionKey) -> None:
        if key.partition >= self._partition_count(key.topic_id):
            raise _refusal(Errors.UNKNOWN_TOPIC_OR_PARTITION)


def _result(work: Pieces[NewRecord], response: object) -> Pieces[CoordinatorResult]:
    return CoordinatorResult([(yield from work)], response)


def _fence_leader(state: ShareState, leader_epoch: int) -> None:
    if leader_epoch != NO_EPOCH and state.leader_epoch_max > leader_epoch:
        raise _refusal(Errors.FENCED_LEADER_EPOCH)


def _fence_state(state: ShareState, state_epoch: int) -> None:
    if state_epoch != NO_EPOCH and state.state_epoch_max > state_epoch:
        raise _refusal(Errors.FENCED_STATE_EPOCH)


def _not_behind(state: ShareState, change: StateChange) -> StateChange:
    """What a leader writes, without taking the start back. Leaders of Kafka have several writes
    under way at a time, and one that was tried again comes after those that moved the start: what
    is known between the two starts was forgotten by then, and would be handed out once more.
    """
    if change.start_offset >= state.start_offset or change.start_offset == UNKNOWN_START_OFFSET:
        return change
    return replace(
        change,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )


def _refusal(error: Errors) -> CoordinatorError:
    """With a message: only what the log refuses has none, and means nothing to clients."""
    return CoordinatorError(error, error.message)
