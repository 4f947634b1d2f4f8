"""Moves with planted faults: the mistakes of a system that moves replicas and that we learned from.

Each fault is in force while stories run, and the stories must find it. The names are those of
the list of mistakes (W-M1 to W-M11); where one of them is several, each has a fault of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from kaa.handlers import k34_alter_replica_log_dirs as handler
from kaa.handlers.in_slices import in_slices
from kaa.log import futures as futures_module
from kaa.log.append import prepare_follower_append
from kaa.log.config import LogConfig
from kaa.log.futures import FutureLogs
from kaa.log.log import UnifiedLog
from kaa.log.manager import LogManager
from kaa.log.recovery import create_log
from kaa.model.topics import TopicPartition
from kaa.replication import partition as partition_module
from kaa.replication.follower import local as local_module
from kaa.replication.follower.local import LocalLeader
from kaa.replication.found_copies import FoundCopies
from kaa.replication.manager import ReplicaManager
from kaa.replication.moves import LogDirectoryMoves
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import FetchResponse
from kaa.wire.messages.k34_alter_replica_log_dirs import AlterReplicaLogDirPartitionResult

PlantedFault = Callable[[], AbstractContextManager[None]]


@contextmanager
def m1_copy_begins_at_zero() -> Iterator[None]:
    """A copy begins at 0 wherever its source does, and asks there again and again."""
    create = FutureLogs.create

    def from_zero(self: FutureLogs, source: UnifiedLog, *arguments: Any) -> UnifiedLog:
        start, source.local_log_start_offset = source.local_log_start_offset, 0
        try:
            return create(self, source, *arguments)
        finally:
            source.local_log_start_offset = start

    async def unknown(*_: Any) -> Errors:
        return Errors.REPLICA_NOT_AVAILABLE

    with (
        patch.object(FutureLogs, "create", from_zero),
        patch.object(LocalLeader, "offsets", unknown),
    ):
        yield


@contextmanager
def m2_gaps_are_refused() -> Iterator[None]:
    """Only a batch that begins where the copy ends is appended."""

    def strict(log: UnifiedLog, records: memoryview, **more: Any) -> Any:
        if int.from_bytes(records[:8], "big") != log.log_end_offset and "-future" in log.folder:
            raise RuntimeError("a gap")
        return prepare_follower_append(log, records, **more)

    with patch.object(partition_module, "prepare_follower_append", strict):
        yield


@contextmanager
def m3_moves_cannot_be_cancelled() -> Iterator[None]:
    """As long as one is under way, nothing else is done."""
    alter = LogDirectoryMoves.alter

    def stubborn(self: LogDirectoryMoves, key: Any, path: str, found: Any) -> Errors:
        if not isinstance(found, Errors) and self.get(found) is not None:
            return Errors.NONE
        return alter(self, key, path, found)

    with patch.object(LogDirectoryMoves, "alter", stubborn):
        yield


@contextmanager
def m4_wake_up_is_lost() -> Iterator[None]:
    """A move that has nothing to copy waits for the next append, though it may have happened."""

    async def fetch(self: LocalLeader, plan: Any, _bounds: Any) -> FetchResponse:
        news = asyncio.Event()
        while True:
            for key in sorted(plan.partitions):
                data = await self._partition(key, plan.partitions[key])
                if data is not None:
                    return local_module._response(key, data)
            self._sources.watch(news)
            news.clear()
            await news.wait()
            self._sources.unwatch(news)

    with patch.object(LocalLeader, "fetch", fetch):
        yield


@contextmanager
def m5_move_that_ended_stays_known() -> Iterator[None]:
    """Its entry is left behind, and later requests meet it."""
    end = LogDirectoryMoves._end

    def forgetful(self: LogDirectoryMoves, move: Any) -> None:
        end(self, move)
        self._moves[move.partition.topic_id, move.partition.number] = move

    with patch.object(LogDirectoryMoves, "_end", forgetful):
        yield


@contextmanager
def m6_truncation_is_not_followed() -> Iterator[None]:
    """A copy that ends where its source does, or after it, counts as complete."""
    records = LocalLeader._records

    async def complete(
        self: LocalLeader, key: Any, log: UnifiedLog, position: Any
    ) -> memoryview | None:
        if position.fetch_offset >= log.log_end_offset:
            await self._sources.advance(key)
            return None
        return await records(self, key, log, position)

    with (
        patch.object(LocalLeader, "_follow_cut", lambda *_: False),
        patch.object(local_module, "_diverging", lambda *_: None),
        patch.object(LocalLeader, "_records", complete),
    ):
        yield


@contextmanager
def m7_copies_of_logs_that_are_not_loaded_are_removed() -> Iterator[None]:
    """Also of those that are on a disk which is only not there now."""

    def careless(self: ReplicaManager) -> None:
        for key in tuple(self.logs.futures.logs):
            if isinstance(self.find(*key), Errors):
                self.logs.futures.drop(key, 0)

    with patch.object(ReplicaManager, "_drop_unknown_futures", careless):
        yield


@contextmanager
def m8_target_gets_its_name_first() -> Iterator[None]:
    """A crash between the renames leaves two logs."""

    def steps(self: Any) -> Iterator[Any]:
        source, future = self._source, self._future
        with future.storage():
            futures_module.rename_folder(future, "t-0")
        target, directory = future.directory, source.directory
        yield from self._run(target, lambda: target.files.sync_directory(target.path))
        with source.storage():
            futures_module.rename_folder(source, f"t-0.{'0' * 32}-delete")
        yield from self._run(directory, lambda: directory.files.sync_directory(directory.path))

    with patch.object(futures_module._Swap, "_rename", steps):
        yield


@contextmanager
def m8_swap_is_not_made_durable() -> Iterator[None]:
    """The copy takes the place of a log that was more durable."""
    with patch.object(futures_module._Swap, "_make_durable", lambda _: iter(())):
        yield


@contextmanager
def m9_copy_has_the_settings_of_the_broker() -> Iterator[None]:
    def default(
        directory: Any, partition: Any, topic_id: Any, _config: Any, *more: Any, **named: Any
    ) -> Any:
        return create_log(directory, partition, topic_id, LogConfig(), *more, **named)

    with patch.object(futures_module, "create_log", default):
        yield


@contextmanager
def m9_move_is_not_throttled() -> Iterator[None]:
    async def hasty(_: Any) -> None:
        return

    with patch.object(LogDirectoryMoves, "_rest", hasty):
        yield


@contextmanager
def m9_move_that_was_given_up_leaves_its_folder() -> Iterator[None]:
    """It would be gone on with after the next restart."""

    def leave(self: FutureLogs, log: UnifiedLog, _now_ms: int) -> None:
        log.close_when_settled()

    with patch.object(FutureLogs, "discard", leave):
        yield


@contextmanager
def m10_first_listed_directory_counts() -> Iterator[None]:
    """And the answer is that of the last one."""

    def handle(services: Any, request: Any, context: Any) -> Any:
        wanted = [
            (TopicPartition(topic.name, number), directory.path)
            for directory in request.dirs
            for topic in directory.topics
            for number in topic.partitions
        ]
        begun: set[Any] = set()

        def alter(item: Any) -> Any:
            key, path = item
            replicas = services.replicas
            if key in begun:
                return key, Errors.KAFKA_STORAGE_ERROR
            begun.add(key)
            return key, replicas.moves.alter(key, path, replicas.find(*key))

        def finish(results: Any) -> Any:
            return handler._response(
                [
                    (
                        key,
                        AlterReplicaLogDirPartitionResult(
                            partition_index=key.partition, error_code=error
                        ),
                    )
                    for key, error in dict(results).items()
                ]
            )

        return in_slices(wanted, alter, finish, slice_max=1000)

    with patch("tests.simulation.moves.bench.handle", handle):
        yield


@contextmanager
def m11_move_under_way_is_a_failed_disk() -> Iterator[None]:
    alter = LogDirectoryMoves.alter

    def refusing(self: LogDirectoryMoves, key: Any, path: str, found: Any) -> Errors:
        move = None if isinstance(found, Errors) else self.get(found)
        if move is not None and move.target.path != path and path in {"/a", "/b", "/c"}:
            return Errors.KAFKA_STORAGE_ERROR
        return alter(self, key, path, found)

    with patch.object(LogDirectoryMoves, "alter", refusing):
        yield


@contextmanager
def records_are_deleted_in_the_middle_of_a_swap() -> Iterator[None]:
    """Where the log starts is written in the directory that it leaves."""

    def hasty(self: LogManager, partition: TopicPartition, offset: int) -> Any:
        log = self.logs[partition]
        return log.directory if log.increment_log_start_offset(offset) else None

    with patch.object(LogManager, "delete_records", hasty):
        yield


@contextmanager
def copy_is_given_up_with_its_source() -> Iterator[None]:
    def careless(self: LogDirectoryMoves, move: Any) -> None:
        self._end(move)
        self._logs.futures.drop(move.future.partition, 0)

    def fragile(self: Any) -> Iterator[Any]:
        source, future = self._source, self._future
        yield from self._rename_durably(source, self._name_aside())
        yield from self._rename_durably(future, "t-0")

    with (
        patch.object(LogDirectoryMoves, "_give_up", careless),
        patch.object(futures_module._Swap, "_rename", fragile),
    ):
        yield


@contextmanager
def source_gets_its_name_back_in_memory_alone() -> Iterator[None]:
    durably = futures_module._Swap._rename_durably

    def forgetful(self: Any, log: UnifiedLog, name: str) -> Iterator[Any]:
        if log is self._source and name == "t-0":
            futures_module.rename_folder(log, name)
            return
        yield from durably(self, log, name)

    with patch.object(futures_module._Swap, "_rename_durably", forgetful):
        yield


@contextmanager
def found_copies_are_not_read() -> Iterator[None]:
    """A copy that was found at the start is taken for what it was."""
    with patch.object(FoundCopies, "add", lambda *_: None):
        yield


@contextmanager
def failed_source_is_not_told() -> Iterator[None]:
    """The controller has the target, and believes the replica to be well."""
    tell = ReplicaManager._report_directory

    def silent(self: ReplicaManager, partition: Any) -> None:
        partition.failed_directory = None
        tell(self, partition)

    with patch.object(ReplicaManager, "_report_directory", silent):
        yield


# With the seed of a story that finds it. W-M7 takes a crash at the one moment at which the copy is
# all there is, and is found by crashes everywhere.
FAULTS: Final[tuple[tuple[PlantedFault, int], ...]] = (
    (m1_copy_begins_at_zero, 3),
    (m2_gaps_are_refused, 9),
    (m3_moves_cannot_be_cancelled, 1),
    (m4_wake_up_is_lost, 103),
    (m5_move_that_ended_stays_known, 1),
    (m6_truncation_is_not_followed, 17),
    (m8_swap_is_not_made_durable, 13),
    (m9_copy_has_the_settings_of_the_broker, 0),
    (m9_move_is_not_throttled, 134),
    (m9_move_that_was_given_up_leaves_its_folder, 3),
    (m10_first_listed_directory_counts, 1),
    (m11_move_under_way_is_a_failed_disk, 1),
)

# Found by disks that fail at each step of a swap.
SWAP_FAULTS: Final[tuple[PlantedFault, ...]] = (
    copy_is_given_up_with_its_source,
    source_gets_its_name_back_in_memory_alone,
)

# Found by crashes at each moment of a swap.
MOMENT_FAULTS: Final[tuple[PlantedFault, ...]] = (
    m8_target_gets_its_name_first,
    records_are_deleted_in_the_middle_of_a_swap,
)
