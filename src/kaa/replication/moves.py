"""Moves of replicas between the log directories of this broker (KIP-113, KIP-858).

A move is a future log in the target directory, a follower of the log that the partition has, with
a leader in the same process (`kaa.replication.follower.local`). It goes through these stages:

- CHECK: a future log that was found at the start is read (`kaa.replication.found_copies`). If it is
  damaged, another one is begun in its place.
- COPY: the follower machine copies, cuts and restarts the future log as its source goes on.
- FLUSH: it has all but a little: what was copied is made durable, while appends go on.
- ASSIGN: the controller learns that the replica is in the target directory; a controller that
  learned it only afterwards would take the replica for lost with the wrong disk.
- WAIT: the source is being cleaned or cut, or the future log flushed.
- SWAP: appends are held off, the rest is copied, and the logs change places.

From COPY on, copying goes on in all stages. Nothing of a move is kept but the folder of its future
log: a broker that starts with one goes on with the move, unless it was cancelled
(`kaa.log.cancelled_moves`). Where a swap had renamed the source when a crash ended it, the future
log is the log (`kaa.replication.log_placement`).

A target that fails ends the move. Its folder is left, since nothing can be removed there, and as in
Kafka the move goes on when a start finds the disk again. Nothing wrong comes of that: the folder is
checked as any other, what the source has lost or got since is cut and copied as by any follower,
and until the disk is back no other move begins.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import DUTY_RETRY_SECONDS
from kaa.log.cancelled_moves import copies_are_gone, is_void, void_copies
from kaa.log.errors import LogError, ShortageError, StorageError
from kaa.log.jobs import FlushLogJob
from kaa.log.names import FUTURE_FOLDER_SUFFIX, folder_name, marked_folder_name
from kaa.log.rebuild import RemoteState
from kaa.log.throttle import PERIOD_SECONDS
from kaa.model.threads import outlast, outlasted
from kaa.model.topics import TopicPartition
from kaa.records.errors import RecordsError
from kaa.replication.follower.fetchers import ReplicaFetchers
from kaa.replication.follower.local import LocalLeader
from kaa.replication.found_copies import FoundCopies
from kaa.replication.log_placement import assigned_directory
from kaa.replication.partition import Awaited, Partition, carried_out
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from kaa.log.dirs import LogDirectory
    from kaa.log.log import UnifiedLog
    from kaa.log.manager import LogManager
    from kaa.log.segment import SegmentRegion
    from kaa.model.seams import Clock
    from kaa.replication.follower.fetcher import FetcherSettings
    from kaa.replication.follower.session import PartitionId
    from kaa.replication.partition import PartitionHost
    from kaa.wire.primitives import Uuid

UNLIMITED: Final = 2**63 - 1


class MoveSettings(NamedTuple):
    """What an operator may change while moves are under way."""

    fetcher: FetcherSettings
    fetcher_count: int
    bytes_per_second: int


class Stage(Enum):
    """What a move that has copied almost everything does next."""

    FLUSH = "flush"
    ASSIGN = "assign"
    WAIT = "wait"
    SWAP = "swap"


class MoveProgress(NamedTuple):
    """What decides about the next stage."""

    is_flushed: bool
    is_assigned: bool
    is_source_busy: bool
    is_future_busy: bool


def next_stage(progress: MoveProgress) -> Stage:
    if progress.is_future_busy:
        return Stage.WAIT
    if not progress.is_flushed:
        return Stage.FLUSH
    if not progress.is_assigned:
        return Stage.ASSIGN
    return Stage.WAIT if progress.is_source_busy else Stage.SWAP


class Move:
    """One replica on its way. Made and ended by `LogDirectoryMoves`."""

    __slots__ = ("follower", "future", "is_flushed", "is_reported", "partition")

    def __init__(self, partition: Partition, future: UnifiedLog, follower: Partition) -> None:
        self.partition = partition
        self.future = future
        # The future log as a replica that follows; it never leads.
        self.follower = follower
        # Whether what was copied first was made durable.
        self.is_flushed = False
        # Whether the controller knows the target.
        self.is_reported = False

    @property
    def target(self) -> LogDirectory:
        return self.future.directory


class LogDirectoryMoves:
    """Moves replicas between the directories of this broker. `alter` begins a move, instead of one
    to another directory, and gives the error for the client; `run` has to be running.
    """

    def __init__(
        self,
        logs: LogManager,
        host: PartitionHost,
        settings: Callable[[], MoveSettings],
        executor: Executor,
        clock: Clock,
        *,
        assigned: Callable[[Uuid, int, Uuid | None], None] = lambda *_: None,
        tells_controller: Callable[[], bool] = lambda: False,
        moved: Callable[[Partition], None] = lambda _: None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`assigned` tells the controller of a directory, if `tells_controller` says so; `moved` is
        called when a partition has another log.
        """
        self._logs = logs
        self._host = host
        self._settings = settings
        self._executor = executor
        self._clock = clock
        self._assigned = assigned
        self._tells_controller = tells_controller
        self._moved = moved
        self._report = report
        self._fetchers = ReplicaFetchers(
            lambda *_: LocalLeader(self),
            lambda: settings().fetcher,
            lambda: settings().fetcher_count,
            clock,
            report,
            remote=self,
            broken=self._copy_failed,
        )
        self._moves: dict[PartitionId, Move] = {}
        self._found = FoundCopies(self, executor)
        # Those who wait for progress of a source, in order.
        self._watchers: dict[asyncio.Event, None] = {}
        # Bytes that were copied and for which nobody has rested yet; one fetcher does at a time.
        self._owed_bytes = 0.0
        self._resting = asyncio.Lock()
        # Partitions whose copies were not looked at, since too many files were open.
        self._short: list[Partition] = []
        self._has_short = asyncio.Event()

    async def run(self) -> None:
        """Copies until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._resume_short())
            tasks.create_task(self._found.run())
            await self._fetchers.run()

    async def _resume_short(self) -> None:
        while True:
            await self._has_short.wait()
            await asyncio.sleep(DUTY_RETRY_SECONDS)
            self._has_short.clear()
            short, self._short = self._short, []
            for partition in short:
                self.update(partition)

    def get(self, partition: Partition) -> Move | None:
        return self._moves.get((partition.topic_id, partition.number))

    # --- what others ask for

    def needs_way(self, key: TopicPartition) -> bool:
        """Whether a copy cannot be made at once: there is one, or checkpoints have its name."""
        return self._logs.futures.get(key) is not None or self._logs.is_stale(key)

    def make_way(self, key: TopicPartition, path: str, found: Partition | Errors) -> None:
        """Ends the move that one to the directory `path` replaces. Once its name is free, `alter`
        writes no checkpoints.
        """
        directory = self._target(key, path)
        if isinstance(directory, Errors) or isinstance(found, Errors):
            return
        if self._is_refused(found, directory):
            return
        move = self.get(found)
        if move is None:
            # A copy that could not be gone on with after a start.
            self._logs.futures.drop(key, self._clock.wall_ms())
        elif move.target is not directory:
            self.cancel(found)

    def alter(self, key: TopicPartition, path: str, found: Partition | Errors) -> Errors:
        """Begins to move a replica to the directory `path`, as Kafka's AlterReplicaLogDirs."""
        directory = self._target(key, path)
        if isinstance(directory, Errors):
            return directory
        if found is Errors.KAFKA_STORAGE_ERROR:
            return found
        if isinstance(found, Errors):
            self._logs.prefer(key, directory)
            is_elsewhere = found is Errors.NOT_LEADER_OR_FOLLOWER
            return Errors.REPLICA_NOT_AVAILABLE if is_elsewhere else found
        if self._is_refused(found, directory):
            return Errors.KAFKA_STORAGE_ERROR
        self.make_way(key, path, found)
        if self.get(found) is not None:
            return Errors.NONE
        try:
            if found.online_log().directory is directory:
                if self._has_offline:
                    # One of them may have a copy, which must not be gone on with.
                    void_copies(found.online_log(), self._logs.directories)
                return Errors.NONE
            future = self._logs.futures.create(found.online_log(), directory, self._clock.wall_ms())
        except StorageError:
            return Errors.KAFKA_STORAGE_ERROR
        self._begin(found, future)
        return Errors.NONE

    def _is_refused(self, partition: Partition, directory: LogDirectory) -> bool:
        """Whether no move to a directory can begin: one that is offline may have a copy of the
        partition already. A move that is under way goes on then.
        """
        move, log = self.get(partition), partition.log
        is_target = move is not None and move.target is directory
        is_source = log is not None and log.directory is directory
        return self._has_offline and not is_target and not is_source

    @property
    def _has_offline(self) -> bool:
        return len(self._logs.online_directories) < len(self._logs.directories)

    def _target(self, key: TopicPartition, path: str) -> LogDirectory | Errors:
        """The directory that a replica may be moved to."""
        name = marked_folder_name(key, UUID_ZERO, FUTURE_FOLDER_SUFFIX)
        if not name.startswith(folder_name(key)):
            # It was cut, so that the folder would not tell whose copy it is after a crash.
            return Errors.INVALID_TOPIC_EXCEPTION
        directory = next((each for each in self._logs.directories if each.path == path), None)
        if directory is None:
            return Errors.LOG_DIR_NOT_FOUND
        if not directory.is_online:
            return Errors.KAFKA_STORAGE_ERROR
        return Errors.INVALID_REPLICA_ASSIGNMENT if directory.is_cordoned else directory

    def update(self, partition: Partition) -> None:
        """The partition is there, or its metadata changed: its move begins, or goes on."""
        move = self._moves.get((partition.topic_id, partition.number))
        if move is None:
            key = TopicPartition(partition.topic, partition.number)
            future = self._logs.futures.logs.get(key)
            if partition.log is None or not partition.log.directory.is_online:
                # The source is lost. The copy may be the last one of what it has, and stays.
                return
            if future is not None and is_void(partition.log, future.directory):
                self._logs.futures.drop(key, self._clock.wall_ms())
                future = None
            if future is not None:
                self._resume(partition, future)
            elif self._logs.is_lost(key):
                self._copy_again(partition, partition.log)
            if partition.log.cancelled_in:
                with suppress(StorageError):
                    copies_are_gone(partition.log, self._logs.directories)
            return
        if not move.target.is_online:
            self.cancel(partition)
            return
        if move.follower.leader_epoch != partition.leader_epoch:
            # What is copied next begins where the copy really ends.
            move.future.settle()
        move.follower.image = partition.image
        self._go_on(move)

    def _go_on(self, move: Move) -> None:
        """Copies what the copy lacks, once it is known to be whole."""
        if move.future not in self._found:
            self._fetchers.follow(move.follower, move.partition.node_id)
            self._wake()

    def _resume(self, partition: Partition, future: UnifiedLog) -> None:
        """Goes on with a move that was under way when the broker stopped."""
        key = TopicPartition(partition.topic, partition.number)
        is_same = future.topic_id in {None, partition.topic_id}
        if not is_same or future.directory is partition.online_log().directory:
            self._logs.futures.drop(key, self._clock.wall_ms())
        elif future.directory.is_online:
            source, now_ms, found = partition.online_log(), self._clock.wall_ms(), future
            try:
                future = self._logs.futures.resume(source, now_ms)
                self._logs.check_topic_id(future, partition.topic_id)
            except (LogError, RecordsError) as error:
                self._not_resumed(partition, error)
                return
            if future is found:
                self._found.add(future)
            else:
                self._report_again(future, "differs from its log")
            self._begin(partition, future)

    def copy_is_whole(self, copy: UnifiedLog) -> None:
        """A copy that was found can be gone on with."""
        move = self._move_of(copy)
        if move is not None:
            self._go_on(move)

    def copy_is_damaged(self, copy: UnifiedLog, reason: str) -> None:
        """A copy that was found is made again."""
        move = self._move_of(copy)
        if move is None:
            return
        partition, now_ms = move.partition, self._clock.wall_ms()
        self._end(move)
        self._report_again(copy, f"is damaged: {reason}")
        self._logs.futures.drop(copy.partition, now_ms)
        try:
            future = self._logs.futures.create(partition.online_log(), copy.directory, now_ms)
        except StorageError as error:
            self._report_stay(copy.partition, str(error))
            if move.is_reported:
                self.report_directory(partition)
        else:
            self._begin(partition, future)

    def _move_of(self, copy: UnifiedLog) -> Move | None:
        return next((move for move in self._moves.values() if move.future is copy), None)

    def _report_again(self, copy: UnifiedLog, what: str) -> None:
        name, path = folder_name(copy.partition), copy.directory.path
        self._report(f"the copy of {name} in {path} {what}. It is made again, from the start")

    def _copy_again(self, partition: Partition, source: UnifiedLog) -> None:
        """Begins a move again whose copy was found damaged, unless it was cancelled."""
        now_ms = self._clock.wall_ms()
        directory = self._logs.lost.drop_damaged_copy(source, now_ms)
        if directory is None or directory is source.directory or is_void(source, directory):
            return
        try:
            future = self._logs.futures.create(source, directory, now_ms)
        except StorageError as error:
            self._report_stay(source.partition, str(error))
        else:
            self._begin(partition, future)

    def _not_resumed(self, partition: Partition, error: LogError | RecordsError) -> None:
        """A copy whose disk failed stays, and so does one for which too many files are open, to be
        gone on with when there are fewer. One that is damaged goes.
        """
        key = TopicPartition(partition.topic, partition.number)
        if isinstance(error, StorageError) and self._logs.futures.get(key) is not None:
            if isinstance(error, ShortageError):
                self._short.append(partition)
                self._has_short.set()
            return
        self._logs.futures.drop(key, self._clock.wall_ms())
        self._report_stay(key, str(error))

    def _begin(self, partition: Partition, future: UnifiedLog) -> None:
        source = partition.online_log()
        source.is_moving = True
        source.unfollowed_cut_offset = None
        follower = Partition(
            partition.topic,
            partition.topic_id,
            partition.number,
            partition.node_id,
            partition.image,
            self._host,
        )
        follower.log = future
        move = Move(partition, future, follower)
        assigned = assigned_directory(partition.image, partition.node_id)
        move.is_reported = assigned is not None and assigned == future.directory.directory_id
        self._moves[partition.topic_id, partition.number] = move
        partition.wait(self._wake, Awaited.LOG_END)
        partition.wait(self._wake, Awaited.HIGH_WATERMARK)
        self._go_on(move)

    def cancel(self, partition: Partition) -> None:
        """Gives a move up, and removes what was copied where that is possible."""
        self.finish_swap(partition)
        move = self.get(partition)
        if move is not None:
            self._give_up(move)

    def finish_swap(self, partition: Partition) -> None:
        """A swap that has begun ends here and now, and with it the move."""
        if self.get(partition) is not None and partition.log is not None:
            partition.log.settle()

    def _give_up(self, move: Move) -> None:
        """Ends a move, and removes the copy, unless that is all there is."""
        partition = move.partition
        self._end(move)
        if partition.log is None or not partition.log.directory.is_online:
            # The source is lost. The copy may be the last one of what it has, and stays.
            return
        self._logs.futures.drop(move.future.partition, self._clock.wall_ms())
        if move.is_reported:
            self.report_directory(partition)

    def _copy_failed(self, follower: Partition, reason: str) -> None:
        """The future log cannot be gone on with. With its disk, that is seen to by `update`."""
        move = self._moves.get((follower.topic_id, follower.number))
        if move is not None and move.follower is follower and move.target.is_online:
            self._stay(move, reason)

    def _stay(self, move: Move, reason: str) -> None:
        self._report_stay(move.future.partition, reason)
        self._give_up(move)

    def _report_stay(self, key: TopicPartition, reason: str) -> None:
        name = folder_name(key)
        self._report(f"{name} could not be moved and stays where it is: {reason}")

    def leave(self, partition: Partition) -> None:
        """The source is lost: the move ends, and its future log, which may be the last copy of
        what it has, stays where it is.
        """
        move = self.get(partition)
        if move is not None:
            self._end(move)

    def report_directory(self, partition: Partition) -> None:
        """Has the controller know where the replica is now."""
        if self._tells_controller():
            directory = partition.online_log().directory.directory_id
            is_right = directory == assigned_directory(partition.image, partition.node_id)
            self._assigned(partition.topic_id, partition.number, None if is_right else directory)

    def reported_directory(self, partition: Partition) -> Uuid | None:
        """The directory that the controller was notified of, while a move is about to end."""
        move = self._moves.get((partition.topic_id, partition.number))
        return move.target.directory_id if move is not None and move.is_reported else None

    def _end(self, move: Move) -> None:
        partition = move.partition
        del self._moves[partition.topic_id, partition.number]
        self._found.forget(move.future)
        self._fetchers.unfollow(move.follower)
        # An append that is under way finds nothing to append to.
        move.follower.log = None
        partition.forget(self._wake)
        if partition.log is not None:
            partition.log.is_moving = False

    # --- the leader's side, for the fetchers

    def source(self, key: PartitionId) -> Partition | None:
        move = self._moves.get(key)
        return None if move is None else move.partition

    def copy_end(self, key: PartitionId) -> int | None:
        move = self._moves.get(key)
        return None if move is None else move.future.log_end_offset

    def source_damaged(self, key: PartitionId, reason: str) -> None:
        """A source cannot be read to its end, nor therefore moved."""
        move = self._moves.get(key)
        if move is not None:
            self._stay(move, reason)

    def find_source(self, topic: str, number: int) -> Partition | None:
        for move in self._moves.values():
            if move.partition.topic == topic and move.partition.number == number:
                return move.partition
        return None

    async def state_before(self, partition: Partition, epoch: int, offset: int) -> RemoteState:
        """What the source knows of the segments that are in remote storage alone: those before
        `offset`, where its disk begins. LogError if that is elsewhere by now.
        """
        source = self.source((partition.topic_id, partition.number))
        log = None if source is None else source.log
        if log is None or log.local_log_start_offset != offset:
            raise LogError(Errors.OFFSET_NOT_AVAILABLE, "the source begins elsewhere now")
        epochs, loop = log.leader_epochs.entries, asyncio.get_running_loop()
        with log.reading():
            work = loop.run_in_executor(self._executor, log.snapshots.encoded_at, offset)
            producers = await outlasted(work)
        return RemoteState(offset, epochs, producers)

    def watch(self, news: asyncio.Event) -> None:
        self._watchers[news] = None

    def unwatch(self, news: asyncio.Event) -> None:
        self._watchers.pop(news, None)

    def _wake(self) -> None:
        for news in self._watchers:
            news.set()

    @property
    def bytes_per_second(self) -> int:
        return max(self._settings().bytes_per_second, 1)

    async def read(self, region: SegmentRegion, buffer: memoryview) -> None:
        loop = asyncio.get_running_loop()
        await outlasted(loop.run_in_executor(self._executor, region.read_into, buffer))
        await self.rest_for(len(buffer))

    async def rest_for(self, size: int) -> None:
        """Keeps to the rate after so many bytes."""
        self._owed_bytes += size
        await self._rest()

    async def _rest(self) -> None:
        """Keeps to the rate, as it is at each moment."""
        async with self._resting:
            while self._owed_bytes > 0:
                rate = self.bytes_per_second
                if rate >= UNLIMITED:
                    self._owed_bytes = 0.0
                    return
                seconds = min(self._owed_bytes / rate, PERIOD_SECONDS)
                await asyncio.sleep(seconds)
                self._owed_bytes -= seconds * rate

    async def advance(self, key: PartitionId) -> bool:
        """Takes the next step of a move that has copied almost everything; whether it has ended."""
        move = self._moves.get(key)
        if move is None:
            return True
        stage = next_stage(self._progress(move))
        if stage is Stage.FLUSH:
            await self._flush(move)
        elif stage is Stage.ASSIGN:
            move.is_reported = True
            partition = move.partition
            self._assigned(partition.topic_id, partition.number, move.target.directory_id)
        elif stage is Stage.SWAP:
            await self._swap(move)
        return self._moves.get(key) is not move

    def _progress(self, move: Move) -> MoveProgress:
        source, future = move.partition.online_log(), move.future
        assigned = assigned_directory(move.partition.image, move.partition.node_id)
        # With a directory that is online it would be elected.
        is_unfilled = source.partition in self._logs.unfilled
        return MoveProgress(
            is_flushed=move.is_flushed,
            is_assigned=not self._tells_controller() or assigned == future.directory.directory_id,
            is_source_busy=source.is_cleaning or source.pending is not None,
            is_future_busy=future.is_flushing or future.pending is not None or is_unfilled,
        )

    async def _flush(self, move: Move) -> None:
        move.is_flushed = True
        try:
            job = FlushLogJob(move.future)
        except StorageError:
            return
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._executor, job.run)
        was_cancelled = await outlast(work)
        _end_flush(job, work, self._clock.wall_ms())
        if was_cancelled:
            raise asyncio.CancelledError

    async def _swap(self, move: Move) -> None:
        partition = move.partition
        began_ms = self._clock.monotonic_ms()

        def ended(error: LogError | RecordsError | None) -> None:
            self._swapped(move, error, self._clock.monotonic_ms() - began_ms)

        swap = self._logs.futures.begin_swap(
            partition.online_log(),
            leader_epoch=partition.leader_epoch,
            now_ms=self._clock.wall_ms(),
            ended=ended,
            is_group_committed=partition.request_flush is not None,
        )
        await carried_out(swap)

    def _swapped(self, move: Move, error: LogError | RecordsError | None, held_ms: int) -> None:
        """The logs have changed places, or could not."""
        if error is None:
            partition = move.partition
            name = f"{partition.topic}-{partition.number}"
            self._end(move)
            source, partition.log = partition.log, move.future
            assert source is not None
            self._report(
                f"{name} has moved from {source.directory.path} to {move.target.path}; appends "
                f"waited {held_ms} ms"
            )
            if partition.request_flush is not None:
                partition.request_flush(partition)
            self._moved(partition)
            return
        self._stay(move, str(error))


def _end_flush(job: FlushLogJob, work: asyncio.Future[None], now_ms: int) -> None:
    error = work.exception()
    if isinstance(error, OSError):
        job.failed(error)
    elif error is not None:
        raise error
    else:
        job.done(now_ms)
