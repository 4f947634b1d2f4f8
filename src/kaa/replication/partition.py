"""One partition on this broker: its log, who leads it, and how far readers may see.

This is where the leader's and the follower's side of a replica meet. Both write to the same log,
never at the same time: metadata decides which one this broker is, and `update` is the only way from
the one to the other.

As leader it appends what producers send, notes how far followers have come, and moves the high
watermark (see `kaa.replication.leader` for the rules). With group commit the broker's own records
count only up to what is on stable storage. As follower it appends what the leader has, cuts what
the leader does not have, and takes over the leader's high watermark and log start.

Who waits for a partition says what for: its log end (a follower's fetch), its high watermark
(consumers, acks=all), its low watermark (DeleteRecords), or what is on stable storage (a follower
with group commit). Lost and new leadership wakes them all.
A waiter is called at every such progress and looks for itself. It must look once after it
registered, before the loop has another turn; then nothing is missed. There is no polling.
"""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaa.limits import FOLLOWER_ON_LOOP_BYTES_MAX
from kaa.log.append import (
    BY_CLIENT,
    UnexpectedAppendOffsetError,
    prepare_follower_append,
    prepare_leader_append,
)
from kaa.log.errors import LogError, StorageError
from kaa.log.pending import PendingAppend
from kaa.log.rebuild import begin_rebuild
from kaa.log.truncation import (
    PendingTruncation,
    begin_restart,
    begin_truncation,
    truncate_fully_and_start_at,
)
from kaa.model.kinds import ACKS_ALL
from kaa.model.topics import NO_EPOCH
from kaa.replication.leader import ClusterView, Leadership
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.controller.image import PartitionImage
    from kaa.log.append import AppendInfo, AppendPlan, AppendSource
    from kaa.log.log import FetchIsolation, ReadResult, UnifiedLog
    from kaa.log.rebuild import RemoteState
    from kaa.records.batch import RecordBatch
    from kaa.replication.leader import IsrProposal
    from kaa.wire.primitives import Uuid


class Awaited(IntEnum):
    """What progress a waiter waits for."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    LOW_WATERMARK = 2
    DURABLE_END = 3


class PartitionHost(ClusterView, Protocol):
    """What a partition needs of the broker that holds it."""

    def monotonic_ms(self) -> int: ...

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Sends a new in-sync set to the controller; `isr_accepted` or `isr_refused` follows."""
        ...


async def carried_out(truncation: PendingTruncation) -> None:
    """Takes the steps of a truncation, in turns of the loop. LogError if the disk failed."""
    work: asyncio.Future[None] | None = None
    try:
        while not truncation.is_settled:
            step = truncation.advance()
            if step is None:
                await asyncio.sleep(0)
            else:
                work = asyncio.wrap_future(step)
                await asyncio.wait([work])
    except asyncio.CancelledError:
        # Nobody else takes the rest of its steps, and whatever comes next waits for them.
        if truncation.is_needed or work is None:
            truncation.settle()
        else:
            work.add_done_callback(lambda _: truncation.settle())
        raise
    if truncation.error is not None:
        raise truncation.error


async def _until_settled(pending: PendingAppend | PendingTruncation) -> None:
    """Waits until a write on another thread counts, or has failed."""
    done = asyncio.get_running_loop().create_future()
    pending.when_settled(lambda: None if done.done() else done.set_result(None))
    await done


async def _written(
    plan: AppendPlan, now_ms: int, settled: Callable[[], None] = lambda: None
) -> None:
    """Has the thread of the directory write an append, and calls when it counts or has failed.
    LogError if the disk failed.
    """
    pending = PendingAppend(plan, now_ms)
    pending.when_settled(settled)
    loop = asyncio.get_running_loop()
    pending.when_written(lambda: loop.call_soon_threadsafe(pending.settle))
    await _until_settled(pending)
    if pending.error is not None:
        raise pending.error


class EpochEnd(NamedTuple):
    """The last offset of a leader epoch, exclusive; both -1 if unknown."""

    epoch: int
    end_offset: int


class Partition:
    """A replica of one partition, as leader or follower. The manager makes it and hands it the
    metadata (`update`); everybody else appends, reads and waits.
    """

    __slots__ = (
        "_host",
        "_waiters",
        "failed_directory",
        "image",
        "leadership",
        "log",
        "min_insync_replicas",
        "node_id",
        "number",
        "request_flush",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: Uuid,
        number: int,
        node_id: int,
        image: PartitionImage,
        host: PartitionHost,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.number = number
        self.node_id = node_id
        self._host = host
        # What the metadata says; the in-sync set of a leader may be ahead of it.
        self.image = image
        # The directory that its log was in when that failed; None as long as it has not.
        self.failed_directory: Uuid | None = None
        # None while the directory of its log is offline.
        self.log: UnifiedLog | None = None
        # Set while this broker leads the partition and has its log.
        self.leadership: Leadership | None = None
        # Of the topic; the manager keeps it up to date.
        self.min_insync_replicas = 1
        # With group commit: asks for a flush after an append, and the broker's own end counts for
        # the high watermark only as far as it was flushed.
        self.request_flush: Callable[[Partition], None] | None = None
        # By `Awaited`, in the order in which they came.
        self._waiters: tuple[dict[Callable[[], None], None], ...] = ({}, {}, {}, {})

    @property
    def is_leader(self) -> bool:
        return self.leadership is not None

    @property
    def leader_epoch(self) -> int:
        return self.image.leader_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        """The in-sync replicas, as this broker knows them."""
        return self.image.isr if self.leadership is None else self.leadership.isr

    # --- metadata

    def update(self, image: PartitionImage) -> None:
        """Takes over what the metadata says now; leadership starts and ends here."""
        is_same_epoch = image.leader_epoch == self.image.leader_epoch
        self.image = image
        log, leadership = self.log, self.leadership
        if image.leader != self.node_id or log is None:
            if log is not None:
                # What is followed next begins where the log really ends.
                self._settle()
            if leadership is not None or not is_same_epoch:
                self.stop_leading()
            return
        now_ms = self._host.monotonic_ms()
        if leadership is None or image.leader_epoch > leadership.leader_epoch:
            if log.pending is not None:
                log = self._settle()
            log.leader_epochs.assign(image.leader_epoch, log.log_end_offset)
        if leadership is None:
            self.leadership = leadership = Leadership(
                self.node_id, self._host, image, log.log_end_offset, now_ms
            )
            if self.request_flush is not None and log.recovery_point < log.log_end_offset:
                # What a recovery found would otherwise stay above the high watermark until
                # somebody appends, and those who wait for it would wait for ever.
                self.request_flush(self)
            self.wake_all()
        else:
            leadership.update(image, log.log_end_offset, now_ms)
        self._propose(leadership.recover())
        self.advance_high_watermark()
        self.wake(Awaited.LOW_WATERMARK)

    def _settle(self) -> UnifiedLog:
        """Ends what is under way in the log, which may leave another one in its place."""
        self.online_log().settle()
        return self.online_log()

    def stop_leading(self) -> None:
        """Another broker leads, or the log is gone: what waits here waits in vain."""
        self.leadership = None
        self.wake_all()

    def brokers_changed(self) -> None:
        """Some broker of the cluster registered, was fenced or unfenced."""
        if self.leadership is not None:
            self.leadership.brokers_changed()
            self.advance_high_watermark()
            self.wake(Awaited.LOW_WATERMARK)

    def online_log(self) -> UnifiedLog:
        """The log of this replica; StorageError while its directory is offline."""
        if self.log is None:
            raise StorageError(f"the directory of {self.topic}-{self.number} is offline")
        return self.log

    # --- appends

    def append(
        self,
        records: memoryview | bytearray | RecordBatch,
        *,
        now_ms: int,
        required_acks: int = ACKS_ALL,
        source: AppendSource = BY_CLIENT,
    ) -> AppendInfo:
        """Appends validated batches as the leader; LogError refuses them."""
        if self.log is not None and self.log.pending is not None:
            self._settle()
        plan = self._prepare(records, now_ms, required_acks, source)
        info = plan.finish(now_ms)
        self._note_append()
        return info

    async def append_later(
        self,
        records: memoryview | bytearray | RecordBatch,
        *,
        now_ms: int,
        required_acks: int = ACKS_ALL,
        source: AppendSource = BY_CLIENT,
    ) -> AppendInfo:
        """The same, written by the thread of the log's directory; `records` belong to it until it
        returns.
        """
        while self.log is not None and self.log.pending is not None:
            await _until_settled(self.log.pending)
        plan = self._prepare(records, now_ms, required_acks, source)
        if plan.segment is not None:
            await _written(plan, now_ms, self._note_append)
        return plan.info

    def _prepare(
        self,
        records: memoryview | bytearray | RecordBatch,
        now_ms: int,
        required_acks: int,
        source: AppendSource,
    ) -> AppendPlan:
        """What is to be written, when nothing is under way in the log."""
        refusal = self.append_refusal(required_acks)
        if refusal is not None:
            raise LogError(refusal, f"{self.topic}-{self.number}")
        return prepare_leader_append(
            self.online_log(),
            records,
            leader_epoch=self.image.leader_epoch,
            now_ms=now_ms,
            source=source,
        )

    @property
    def is_append_long(self) -> bool:
        """Whether `append` would wait for the thread of the log's directory: a write is under way
        there, or flushes always are (group commit), which a write to the same file waits for.
        """
        log = self.online_log()
        if log.directory.writer is None:
            return False
        return log.pending is not None or self.request_flush is not None

    def append_refusal(self, required_acks: int) -> Errors | None:
        """Why nothing may be appended here now: the one place that says so."""
        leadership = self.leadership
        if leadership is None:
            return Errors.NOT_LEADER_OR_FOLLOWER
        if required_acks == ACKS_ALL and not leadership.has_enough(
            len(leadership.isr), self.min_insync_replicas
        ):
            return Errors.NOT_ENOUGH_REPLICAS
        return None

    def _note_append(self) -> None:
        self.wake(Awaited.LOG_END)
        if self.request_flush is None:
            self.advance_high_watermark()
        else:
            self.request_flush(self)

    def replication_outcome(self, offset: int, leader_epoch: int) -> Errors | None:
        """What became of records below `offset`, appended under `leader_epoch`, for acks=all.

        None as long as it is not decided.
        """
        leadership, log = self.leadership, self.log
        if leadership is None or log is None or leader_epoch < leadership.since_epoch:
            return Errors.NOT_LEADER_OR_FOLLOWER
        if log.high_watermark < offset:
            return None
        if leadership.has_enough(leadership.maximal_isr_count, self.min_insync_replicas):
            return Errors.NONE
        return Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # --- followers of this leader

    def check_follower(self, replica_id: int, broker_epoch: int, *, knows_epoch: bool) -> Errors:
        """Whether a broker may read as a replica of this partition.

        One that is not in the assignment may see nothing above the high watermark (CVE-2018-1288).
        It is ahead of this broker's metadata, or an impostor, and is refused.
        """
        leadership = self.leadership
        if leadership is None:
            return Errors.NOT_LEADER_OR_FOLLOWER
        if replica_id not in leadership.replicas:
            return Errors.UNKNOWN_LEADER_EPOCH if knows_epoch else Errors.NOT_LEADER_OR_FOLLOWER
        if leadership.is_stale(replica_id, broker_epoch):
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.NONE

    def replica_fetched(
        self, replica_id: int, end_offset: int, start_offset: int = 0, broker_epoch: int = -1
    ) -> None:
        """A follower has read from `end_offset` on, so that it has all before it.

        To be called after the read has succeeded: an offset out of range tells nothing.
        """
        leadership, log = self.leadership, self.log
        if leadership is None or log is None:
            return
        replica = leadership.replicas.get(replica_id)
        if replica is None or leadership.is_stale(replica_id, broker_epoch):
            return
        before, start_before = replica.end_offset, replica.start_offset
        now_ms = self._host.monotonic_ms()
        replica.fetched(end_offset, start_offset, log.log_end_offset, now_ms, broker_epoch)
        self._propose(leadership.expand(replica_id, log.high_watermark))
        if end_offset != before:
            self.advance_high_watermark()
        if start_offset != start_before:
            self.wake(Awaited.LOW_WATERMARK)

    def shrink_isr(self) -> None:
        """Proposes a set without the replicas that are too far behind."""
        if self.leadership is not None and self.log is not None:
            now_ms = self._host.monotonic_ms()
            self._propose(self.leadership.shrink(self.log.log_end_offset, now_ms))

    def _propose(self, proposal: IsrProposal | None) -> None:
        if proposal is not None:
            self._host.propose(self, proposal)

    def isr_accepted(
        self,
        proposal: IsrProposal,
        isr: tuple[int, ...],
        leader_epoch: int,
        partition_epoch: int,
        recovery_state: int,
    ) -> None:
        leadership = self.leadership
        if leadership is not None and leadership.accepted(
            proposal, isr, leader_epoch, partition_epoch, recovery_state
        ):
            self.advance_high_watermark()

    def isr_refused(self, proposal: IsrProposal, error: Errors) -> bool:
        """Whether to ask again."""
        return self.leadership is not None and self.leadership.refused(proposal, error)

    # --- offsets

    def flushed(self) -> None:
        """Group commit has brought more of the log to stable storage."""
        self.wake(Awaited.DURABLE_END)
        self.advance_high_watermark()

    def advance_high_watermark(self) -> None:
        """Moves the high watermark to what all in-sync replicas have, and tells those who wait."""
        log, leadership = self.log, self.leadership
        if log is None or leadership is None:
            return
        end_offset = log.log_end_offset
        reached = leadership.high_watermark(
            end_offset if self.request_flush is None else log.recovery_point,
            end_offset,
            self.min_insync_replicas,
            self._host.monotonic_ms() if leadership.replicas else 0,
        )
        if reached is not None and reached > log.high_watermark:
            log.update_high_watermark(reached)
            self.wake(Awaited.HIGH_WATERMARK)

    def is_behind_predecessor(self) -> bool:
        """Whether the leader before this one may have shown clients more than this one does yet.

        What it showed lies before this leader's epoch, whose start is not replicated yet.
        """
        leadership, log = self.leadership, self.log
        if leadership is None or log is None:
            return False
        return log.high_watermark < leadership.epoch_start_offset

    @property
    def low_watermark(self) -> int:
        """The least log start of all live replicas, for DeleteRecords."""
        log = self.online_log()
        if self.leadership is None:
            return log.log_start_offset
        return self.leadership.low_watermark(log.log_start_offset)

    # --- waiting

    def wait(self, waiter: Callable[[], None], awaited: Awaited = Awaited.HIGH_WATERMARK) -> None:
        """Calls `waiter` at every such progress, until `forget`."""
        self._waiters[awaited][waiter] = None

    def forget(self, waiter: Callable[[], None]) -> None:
        for waiters in self._waiters:
            waiters.pop(waiter, None)

    def wake(self, awaited: Awaited) -> None:
        waiters = self._waiters[awaited]
        if waiters:
            for waiter in tuple(waiters):
                waiter()

    def wake_all(self) -> None:
        for waiters in self._waiters:
            for waiter in tuple(waiters):
                waiter()

    # --- as follower

    async def append_as_follower(
        self, records: memoryview, *, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        """Appends batches of the leader as they are; many bytes on the thread of the directory.

        LogError NOT_LEADER_OR_FOLLOWER if this broker does not follow in that epoch any more.
        """
        log = await self._free_log(leader_epoch)
        try:
            plan = prepare_follower_append(log, records, leader_epoch=leader_epoch, now_ms=now_ms)
        except UnexpectedAppendOffsetError as error:
            end_offset = log.log_end_offset
            if not error.first_offset < end_offset <= error.last_offset:
                raise
            # The leader's log starts inside of a batch, because of DeleteRecords, and this one
            # begins there too, or was cut there. Such a batch comes as a whole, so that this log
            # has to go on where the batch begins.
            if end_offset == log.log_start_offset:
                truncate_fully_and_start_at(log, error.first_offset, now_ms)
            else:
                await self.cut_to(error.first_offset, leader_epoch=leader_epoch, now_ms=now_ms)
            plan = prepare_follower_append(log, records, leader_epoch=leader_epoch, now_ms=now_ms)
        if plan.segment is not None:
            is_small = plan.info.size_in_bytes <= FOLLOWER_ON_LOOP_BYTES_MAX
            if log.directory.writer is None or (is_small and plan.flush is None):
                plan.finish(now_ms)
            else:
                await _written(plan, now_ms)
            await self._until_durable(plan.info.last_offset + 1, leader_epoch)
        return plan.info

    async def _until_durable(self, end_offset: int, leader_epoch: int) -> None:
        """With group commit: the next fetch would tell the leader that this replica has the
        records, so that it waits until they are on stable storage.
        """
        if self.request_flush is None:
            return
        self.request_flush(self)
        progress = asyncio.Event()
        self.wait(progress.set, Awaited.DURABLE_END)
        try:
            while self._followed_log(leader_epoch).recovery_point < end_offset:
                progress.clear()
                await progress.wait()
        finally:
            self.forget(progress.set)

    def _followed_log(self, leader_epoch: int) -> UnifiedLog:
        if self.leadership is not None or self.leader_epoch != leader_epoch:
            name = f"{self.topic}-{self.number}"
            raise LogError(Errors.NOT_LEADER_OR_FOLLOWER, f"{name} is not followed in this epoch")
        return self.online_log()

    async def cut_to(self, offset: int, *, leader_epoch: int, now_ms: int) -> None:
        """Removes what the leader of that epoch does not have, from `offset` on."""
        log = await self._free_log(leader_epoch)
        truncation = begin_truncation(log, offset, now_ms)
        if truncation is not None:
            await carried_out(truncation)

    async def restart_at(self, offset: int, *, leader_epoch: int, now_ms: int) -> None:
        """Removes everything, since the leader of that epoch begins at `offset`."""
        log = await self._free_log(leader_epoch)
        await carried_out(begin_restart(log, offset, now_ms))

    async def rebuild(
        self, state: RemoteState, log_start_offset: int, *, leader_epoch: int, now_ms: int
    ) -> None:
        """Removes everything, and goes on after what is in remote storage."""
        log = await self._free_log(leader_epoch)
        await carried_out(begin_rebuild(log, state, log_start_offset, now_ms))

    async def until_swapped(self) -> None:
        """Waits for a swap of the log with its copy in another directory, if one is under way."""
        while self.log is not None and isinstance(self.log.pending, PendingTruncation):
            await _until_settled(self.log.pending)

    async def _free_log(self, leader_epoch: int) -> UnifiedLog:
        """The log, when nothing is under way in it."""
        log = self._followed_log(leader_epoch)
        while log.pending is not None:
            await _until_settled(log.pending)
            log = self._followed_log(leader_epoch)
        return log

    def follow(self, high_watermark: int, log_start_offset: int, leader_epoch: int) -> None:
        """Takes over what the leader says of its high watermark and log start."""
        log = self._followed_log(leader_epoch)
        if high_watermark > log.high_watermark:
            before = log.high_watermark
            if log.update_high_watermark(high_watermark) > before:
                self.wake(Awaited.HIGH_WATERMARK)
        if log_start_offset > log.log_start_offset:
            log.increment_log_start_offset(min(log_start_offset, log.high_watermark))

    # --- reads

    def read_refusal(
        self, current_leader_epoch: int = NO_EPOCH, *, needs_leader: bool = True
    ) -> Errors | None:
        """Why nothing may be read here now: the one place that says so. The epoch that the reader
        believes in, -1 for none, is compared first, as in Kafka.
        """
        if current_leader_epoch != NO_EPOCH:
            leader_epoch = self.image.leader_epoch
            if current_leader_epoch < leader_epoch:
                return Errors.FENCED_LEADER_EPOCH
            if current_leader_epoch > leader_epoch:
                return Errors.UNKNOWN_LEADER_EPOCH
        if needs_leader and self.leadership is None:
            return Errors.NOT_LEADER_OR_FOLLOWER
        return None

    def read(
        self, offset: int, bytes_max: int, isolation: FetchIsolation, *, min_one: bool
    ) -> ReadResult:
        return self.online_log().read(
            offset, bytes_max=bytes_max, isolation=isolation, min_one_batch=min_one
        )

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """Where `leader_epoch`, or the latest one before it, ended in this log."""
        log = self.online_log()
        if leader_epoch == NO_EPOCH:
            return EpochEnd(NO_EPOCH, -1)
        epoch, end_offset = log.leader_epochs.end_offset_for(leader_epoch, log.log_end_offset)
        return EpochEnd(epoch, end_offset)
