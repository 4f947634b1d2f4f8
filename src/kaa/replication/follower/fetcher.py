"""A fetcher at work: it asks its leader and does what the machine makes of the answers.

Records are appended in pieces, with turns of the loop for others in between; large pieces are
written by the thread of the directory. Cutting and restarting logs, and asking for the bounds of
the leader's, happens beside the fetches, one partition after the other: after a failover there may
be thousands, and the others must not wait for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kaa.limits import (
    FOLLOWER_PARTITIONS_PER_TURN_MAX,
    FOLLOWER_PIECE_BATCHES_MAX,
    FOLLOWER_PIECE_BYTES_MAX,
)
from kaa.log.errors import CorruptFileError, DamagedLogError, LogError
from kaa.model.topics import NO_EPOCH
from kaa.records.errors import RecordsError
from kaa.replication.follower.machine import (
    Append,
    AskOffsets,
    Cut,
    FollowerMachine,
    LogPosition,
    Rebuild,
    Report,
    Restart,
    cut_offset,
)
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kaa.log.rebuild import RemoteState
    from kaa.model.seams import Clock
    from kaa.replication.follower.link import LeaderLink, ReplicaFetchBounds
    from kaa.replication.follower.machine import CutToDivergence, Effect, Repair, Target
    from kaa.replication.follower.session import PartitionId
    from kaa.replication.partition import Partition

_LENGTH: Final = Struct(">i")
_OVERHEAD_BYTES: Final = 12


class FetcherSettings(NamedTuple):
    """`replica.fetch.*`, as they are now."""

    bounds: ReplicaFetchBounds
    backoff_ms: int
    partition_bytes_max: int
    # Whether an empty log begins after all that is in remote storage, rather than where the disk
    # of the leader does.
    begins_at_last_tiered: bool = False


class RemoteStates(Protocol):
    """What comes with remote segments."""

    async def state_before(self, partition: Partition, epoch: int, offset: int) -> RemoteState:
        """That of the segment which holds the offset before this one. LogError if it is not known,
        or cannot be read now.
        """
        ...


class FetchThrottle(Protocol):
    """What replicas that catch up keep below."""

    def record_fetched(self, partition: Partition, size: int) -> None: ...

    def must_pause(self, partition: Partition, *, is_in_sync: bool) -> bool:
        """Whether the partition has to wait before more of it is fetched."""
        ...

    def is_fetching_exceeded(self) -> bool: ...


def log_position(partition: Partition) -> LogPosition:
    log = partition.online_log()
    latest = log.leader_epochs.latest_epoch
    return LogPosition(
        log.log_end_offset, NO_EPOCH if latest is None else latest, log.log_start_offset
    )


class Fetcher:
    """One of the fetchers to one leader."""

    def __init__(
        self,
        link: LeaderLink,
        settings: Callable[[], FetcherSettings],
        clock: Clock,
        report: Callable[[str], None],
        remote: RemoteStates | None = None,
        throttle: FetchThrottle | None = None,
        broken: Callable[[Partition, str], None] | None = None,
    ) -> None:
        """`remote` is None where nothing is tiered. `broken` is called, instead of `report`, when a
        log cannot be worked on any more, or its leader, which is here, has damaged records.
        """
        self._link = link
        self._settings = settings
        self._clock = clock
        self._report = report
        self._remote = remote
        self._broken = broken
        now = settings()
        self._throttle = throttle
        is_throttling = throttle.is_fetching_exceeded if throttle is not None else lambda: False
        self.machine = FollowerMachine(now.backoff_ms, now.partition_bytes_max, is_throttling)
        self.partitions: dict[PartitionId, Partition] = {}
        self._has_news = asyncio.Event()
        self._repairs: deque[Repair] = deque()
        self._has_repairs = asyncio.Event()
        # What is being repaired.
        self._repaired: PartitionId | None = None
        # Whether the last fetch got no answer; reported once.
        self._is_failing = False
        # Why logs could not be rebuilt; reported once each.
        self._unbuilt: dict[PartitionId, str] = {}

    # --- which partitions

    def follow(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.number)
        self.partitions[key] = partition
        self.machine.follow(key, partition.leader_epoch, log_position(partition))
        self._has_news.set()

    def unfollow(self, key: PartitionId) -> None:
        self.partitions.pop(key, None)
        self.machine.unfollow(key)
        self._has_news.set()

    # --- work

    async def run(self) -> None:
        """Copies until it is cancelled; goes on from the logs if it was called before."""
        self._repairs.clear()
        self._repaired = None
        self._go_on_from_logs()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._repair())
                while True:
                    try:
                        await self._round()
                    except Exception as error:  # noqa: BLE001  Others go on, and so does this one.
                        await self._start_over(error)
        finally:
            self._link.close()

    async def _start_over(self, error: Exception) -> None:
        """Something happened that nobody expected: what is in the logs is gone on from."""
        self._report(f"copying from a leader failed and is started again: {error!r}")
        self._go_on_from_logs()
        await asyncio.sleep(self._settings().backoff_ms / 1000)

    def _go_on_from_logs(self) -> None:
        """Forgets what was under way, except for repairs, which go on beside the fetches."""
        self.machine.failed(self._clock.monotonic_ms())
        in_repair = {effect.target.partition for effect in self._repairs}
        for key, partition in self.partitions.items():
            if key not in in_repair and key != self._repaired:
                self.machine.follow(key, partition.leader_epoch, log_position(partition))

    async def _round(self) -> None:
        machine, settings = self.machine, self._settings()
        machine.backoff_ms = settings.backoff_ms
        machine.partition_bytes_max = settings.partition_bytes_max
        self._has_news.clear()
        plan = machine.next_fetch(self._clock.monotonic_ms())
        if plan is None:
            await self._rest()
            return
        try:
            response = await self._link.fetch(plan, settings.bounds)
        except OSError as error:
            machine.failed(self._clock.monotonic_ms())
            if not self._is_failing:
                self._is_failing = True
                self._report(f"fetching from a leader failed and is tried again: {error}")
            return
        self._is_failing = False
        await self.perform(machine.fetched(response, self._clock.monotonic_ms()))

    async def _rest(self) -> None:
        """Until a partition is there to be fetched."""
        deadline_ms = self.machine.next_deadline_ms
        if deadline_ms is None:
            await self._has_news.wait()
            return
        delay_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        try:
            async with asyncio.timeout(delay_ms / 1000):
                await self._has_news.wait()
        except TimeoutError:
            return

    async def perform(self, effects: Iterable[Effect]) -> None:
        """Appends at once; what takes longer is queued for `_repair`."""
        for number, effect in enumerate(effects, 1):
            if isinstance(effect, Append):
                await self._append(effect)
                if number % FOLLOWER_PARTITIONS_PER_TURN_MAX == 0:
                    await asyncio.sleep(0)
            elif isinstance(effect, Report):
                self._tell(effect)
            else:
                self._repairs.append(effect)
                self._has_repairs.set()

    def _tell(self, report: Report) -> None:
        partition = self.partitions.get(report.partition)
        if partition is not None:
            self._report(f"{partition.topic}-{partition.number}: {report.reason}")

    # --- appends

    async def _append(self, effect: Append) -> None:
        target = effect.target
        partition = self.partitions.get(target.partition)
        if partition is None:
            return
        try:
            for number, piece in enumerate(cut_pieces(memoryview(effect.records))):
                if number:
                    await asyncio.sleep(0)
                    if self.partitions.get(target.partition) is not partition:
                        # Another fetcher goes on with it from here.
                        return
                await partition.append_as_follower(
                    piece, leader_epoch=target.leader_epoch, now_ms=self._clock.wall_ms()
                )
            partition.follow(effect.high_watermark, effect.log_start_offset, target.leader_epoch)
            self._appended(effect, partition)
        except RecordsError as error:
            self._damaged(target, log_position(partition), error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this partition alone.
            self._stopped(target, error)

    def _damaged(self, target: Target, position: LogPosition, error: RecordsError) -> None:
        if self._broken is None:
            now_ms = self._clock.monotonic_ms()
            self._tell(self.machine.damaged(target, position, str(error), now_ms))
            return
        # They came out of a file of this broker, which says the same the next time.
        text = f"what is stored from offset {position.end_offset} on is damaged: {error}"
        self._stopped(target, DamagedLogError(text))

    def _appended(self, effect: Append, partition: Partition) -> None:
        position = log_position(partition)
        is_in_sync = position.end_offset >= effect.high_watermark
        throttle, size = self._throttle, len(effect.records)
        if throttle is not None:
            throttle.record_fetched(partition, size)
        if throttle is not None and throttle.must_pause(partition, is_in_sync=is_in_sync):
            self.machine.held(effect.target, position, self._clock.monotonic_ms())
        else:
            self.machine.done(effect.target, position)

    def _stopped(self, target: Target, error: Exception) -> None:
        if isinstance(error, LogError) and error.error is Errors.NOT_LEADER_OR_FOLLOWER:
            self.machine.given_up(target)
            return
        partition = self.partitions.get(target.partition)
        reason = f"{type(error).__name__}: {error}"
        for report in self.machine.broken(target, reason):
            if self._broken is None:
                self._tell(report)
            elif partition is not None:
                self._broken(partition, reason)

    # --- what happens beside the fetches

    async def _repair(self) -> None:
        while True:
            while self._repairs:
                effect = self._repairs.popleft()
                self._repaired = effect.target.partition
                await self.repair(effect)
                self._repaired = None
                self._has_news.set()
            self._has_repairs.clear()
            await self._has_repairs.wait()

    async def repair(self, effect: Effect) -> None:
        assert not isinstance(effect, Append | Report)
        target = effect.target
        partition = self.partitions.get(target.partition)
        if partition is None:
            return
        try:
            if isinstance(effect, AskOffsets):
                await self._ask_offsets(effect, partition)
                return
            if isinstance(effect, Rebuild):
                await self._rebuild(effect, partition)
                return
            await self._cut(effect, partition)
            # It may have lost its log meanwhile.
            self.machine.done(target, log_position(partition))
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this partition alone.
            self._stopped(target, error)

    async def _cut(self, effect: CutToDivergence | Cut | Restart, partition: Partition) -> None:
        now_ms, leader_epoch = self._clock.wall_ms(), effect.target.leader_epoch
        if isinstance(effect, Restart):
            await partition.restart_at(effect.offset, leader_epoch=leader_epoch, now_ms=now_ms)
            return
        offset = effect.offset if isinstance(effect, Cut) else self._divergence(effect, partition)
        await partition.cut_to(offset, leader_epoch=leader_epoch, now_ms=now_ms)

    def _divergence(self, effect: CutToDivergence, partition: Partition) -> int:
        log = partition.online_log()
        offset = cut_offset(log.leader_epochs, log.log_end_offset, effect.epoch, effect.end_offset)
        if offset < log.high_watermark:
            self._report(
                f"{partition.topic}-{partition.number}: cut to {offset}, below its high watermark "
                f"{log.high_watermark}: records that were acknowledged may be lost"
            )
        return offset

    async def _ask_offsets(self, effect: AskOffsets, partition: Partition) -> None:
        target = effect.target
        try:
            found = await self._link.offsets(partition.topic, partition.number, target.leader_epoch)
        except OSError:
            found = Errors.NETWORK_EXCEPTION
        if isinstance(found, Errors):
            self.machine.failed_for_now(target, self._clock.monotonic_ms())
            return
        end_offset = partition.online_log().log_end_offset
        for following in self.machine.offsets(target, found.start, found.end, end_offset):
            if isinstance(following, Report):
                self._tell(following)
            else:
                await self.repair(following)

    async def _rebuild(self, effect: Rebuild, partition: Partition) -> None:
        target = effect.target
        try:
            await self._rebuild_from(partition, target.leader_epoch)
        except (OSError, LogError, CorruptFileError) as error:
            if isinstance(error, LogError) and error.error is Errors.NOT_LEADER_OR_FOLLOWER:
                raise
            text = f"cannot be rebuilt from remote storage yet: {error}"
            if self._unbuilt.get(target.partition) != text:
                self._unbuilt[target.partition] = text
                self._tell(Report(target.partition, text))
            self.machine.failed_for_now(target, self._clock.monotonic_ms())
        else:
            self._unbuilt.pop(target.partition, None)
            self.machine.done(target, log_position(partition))

    async def _rebuild_from(self, partition: Partition, leader_epoch: int) -> None:
        remote, log = self._remote, partition.online_log()
        if remote is None:
            raise LogError(
                Errors.KAFKA_STORAGE_ERROR,
                "this broker has no tiered storage; set remote.log.storage.system.enable=true",
            )
        is_empty = log.log_end_offset == log.log_start_offset
        found = await self._link.local_start(
            partition.topic,
            partition.number,
            leader_epoch,
            after_tier=is_empty and self._settings().begins_at_last_tiered,
        )
        if isinstance(found, Errors):
            raise LogError(found, "the leader does not say where its disk begins")
        now_ms = self._clock.wall_ms()
        if found.offset <= found.log_start_offset:
            await partition.restart_at(found.offset, leader_epoch=leader_epoch, now_ms=now_ms)
            return
        state = await remote.state_before(partition, found.epoch_before, found.offset)
        await partition.rebuild(
            state, found.log_start_offset, leader_epoch=leader_epoch, now_ms=now_ms
        )


def cut_pieces(records: memoryview) -> Iterator[memoryview]:
    """The records in pieces of whole batches that are appended one after the other.

    What is not a batch is part of the last piece, so that its append finds out.
    """
    start = position = count = 0
    end = len(records)
    while end - position > _OVERHEAD_BYTES:
        length: int = _LENGTH.unpack_from(records, position + 8)[0]
        if length <= 0:
            break
        following = position + length + _OVERHEAD_BYTES
        if count and (
            count == FOLLOWER_PIECE_BATCHES_MAX or following - start > FOLLOWER_PIECE_BYTES_MAX
        ):
            yield records[start:position]
            start, count = position, 0
        position = following
        count += 1
    if start < end:
        yield records[start:]
