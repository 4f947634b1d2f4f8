"""Moves in which a disk fails at the last moment, or which end in the middle of an append."""

from __future__ import annotations

import asyncio
import errno
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from kaa.log.futures import FutureLogs
from kaa.log.log import UnifiedLog
from kaa.log.sim_files import Fault, Inspection, Operation
from kaa.log.truncation import PendingTruncation, truncate_to
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from tests.unit.log.batches import batch
from tests.unit.replication.movers import (
    DIRECTORIES,
    KEY,
    SECONDS_MAX,
    alter,
    contents,
    create,
    find,
    held_before_the_swap,
    image_of,
    is_assigned,
    log_of,
    many_segments,
    moved,
    new_files,
    node,
    other,
    plain,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.sim_files import SimFiles
    from kaa.replication.follower.session import PartitionId

RECORDS = 150
MANY_RECORDS = 60


async def is_whole(files: SimFiles) -> bool:
    """Whether the next start has every record and does not lead an empty log."""
    async with node(files) as broker:
        found = broker.services.replicas.find(*KEY)
        if isinstance(found, Errors):
            assert found is Errors.KAFKA_STORAGE_ERROR
            return False
        log = found.online_log()
        return found.is_leader and (log.log_start_offset, log.log_end_offset) == (0, RECORDS)


@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_source_that_fails_within_the_swap_hands_over_to_the_copy(operation: Operation) -> None:
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            source, target = await held_before_the_swap(broker)
            files.faults = [Fault(operation, source.directory.path)]
            source.is_cleaning = False
            await until(lambda: not source.directory.is_online)
            await until(lambda: log_of(broker).directory is target)
            assert find(broker).is_leader
            assert log_of(broker).log_end_offset == RECORDS
            assert is_assigned(broker, target)
            assert source.is_closed

    asyncio.run(main())
    files.faults = []
    assert asyncio.run(is_whole(files))
    assert asyncio.run(is_whole(files))


def test_source_whose_tail_cannot_be_read_leaves_the_copy_as_it_is() -> None:
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            source, _ = await held_before_the_swap(broker)
            future = broker.services.logs.futures.logs[KEY]
            moves = broker.services.replicas.moves
            assert moves is not None
            move = moves.get(find(broker))
            assert move is not None
            copied = future.log_end_offset
            move.follower.log = None
            find(broker).append(batch(1), now_ms=0)
            files.faults = [Fault("read", source.directory.path)]
            source.is_cleaning = False
            await moves._swap(move)
            assert not source.directory.is_online
            await until(lambda: broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR)
            assert broker.services.logs.futures.logs[KEY] is future
            assert future.log_end_offset == copied
            await until(lambda: moves.get(move.partition) is None)

    asyncio.run(main())
    files.faults = []
    marks = [name.rpartition("-")[2] for path in DIRECTORIES for name in files.list_directory(path)]
    assert marks.count("future") == 1
    assert "delete" not in marks


def test_leadership_moves_off_a_source_that_fails_when_the_controller_knows_the_target() -> None:
    """For the controller the replica is on a disk that is online: it has to be told."""
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            source, _ = await held_before_the_swap(broker)
            source.directory.fail(OSError("dead"))
            await until(lambda: image_of(broker).leader == -1)
            assert is_assigned(broker, source.directory)
            assert broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR

    asyncio.run(main())
    assert asyncio.run(is_whole(files))


def test_copy_without_a_move_is_closed_when_its_disk_fails_too() -> None:
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            source, target = await held_before_the_swap(broker)
            broker._lost = None  # The node would stop itself: no disk is left.
            source.directory.fail(OSError("dead"))
            await until(lambda: broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR)
            assert [path for path in files.open_paths() if path.startswith(f"{target.path}/t-0")]
            target.fail(OSError("dead"))
            await until(
                lambda: (
                    not [
                        path for path in files.open_paths() if path.startswith(f"{target.path}/t-0")
                    ]
                )
            )

    asyncio.run(main())


def test_move_that_is_cancelled_between_two_pieces_writes_no_more_and_keeps_nothing_open() -> None:
    """Of many small batches, which are appended some at a time."""
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            partition = await create(broker, file_delete_delay_ms="0")
            for number in range(1000):
                partition.append(batch(1, timestamp=number), now_ms=number)
            source = log_of(broker)
            await until(lambda: is_assigned(broker, source.directory))
            interrupted = 0
            for _ in range(5):
                assert alter(broker, other(source)) is Errors.NONE
                future = broker.services.logs.futures.logs[KEY]
                while future.log_end_offset == 0:  # noqa: ASYNC110  At the next turn it may end.
                    await asyncio.sleep(0)
                copied = future.log_end_offset
                interrupted += copied < source.log_end_offset
                assert alter(broker, source.directory.path) is Errors.NONE
                await asyncio.sleep(0.05)
                assert future.log_end_offset == copied
                assert not [path for path in files.open_paths() if "-delete" in path]
            assert interrupted
            await until(lambda: not [n for n in files.list_directory(other(source)) if "t-0" in n])
            assert all(each.is_online for each in broker.services.logs.directories)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("operation", "is_source"),
    [
        ("create", False),
        ("open", False),
        ("sync_directory", False),
        ("open", True),
        ("open_directory", False),
        ("open_directory", True),
    ],
)
def test_too_many_open_files_cost_a_move_and_no_disk(
    operation: Operation | Inspection, is_source: bool
) -> None:
    """Whichever file of the two cannot be opened: the move goes on later, or is given up."""
    files = new_files()

    async def make() -> None:
        async with node(files) as broker:
            await many_segments(await create(broker, file_delete_delay_ms="0"))

    async def is_struck(skip: int) -> bool:
        async with node(files) as broker:
            source, moves = log_of(broker), broker.services.replicas.moves
            assert moves is not None
            source.rest()
            path = source.folder if is_source else f"{KEY}."
            if operation == "open_directory":
                path = source.directory.path if is_source else other(source)
            fault = Fault(operation, path, errno.EMFILE, skip=skip)
            files.faults = [fault]
            alter(broker, other(source))
            await until(lambda: moves.get(find(broker)) is None)
            files.faults = []
            assert not broker.services.logs.futures.logs
            assert all(directory.is_online for directory in broker.services.logs.directories)
            assert log_of(broker).log_end_offset == MANY_RECORDS
            return fault.times == 0

    asyncio.run(make())
    struck = [asyncio.run(is_struck(skip)) for skip in range(5)]
    assert struck[0]
    for directory in DIRECTORIES:
        assert not [name for name in files.list_directory(directory) if "-future" in name]


class HeldWriter(ThreadPoolExecutor):
    """A disk that takes its time."""

    def __init__(self) -> None:
        super().__init__(1)
        self.go = threading.Event()

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        def held() -> Any:
            self.go.wait(SECONDS_MAX)
            return work(*arguments, **named)

        return super().submit(held)


def test_leader_epoch_that_changes_in_the_middle_of_an_append_does_not_end_a_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is copied next begins where the copy really ends."""
    settle = UnifiedLog.settle

    async def main() -> None:
        async with node(new_files()) as broker:
            partition = await create(broker)
            for _ in range(20):
                partition.append(batch(3, value_bytes=100_000), now_ms=0)
            before, target = contents(log_of(broker)), other(log_of(broker))
            moves, logs = broker.services.replicas.moves, broker.services.logs
            assert moves is not None
            directory = next(each for each in logs.directories if each.path == target)
            with HeldWriter() as writer:

                def settle_when_written(log: UnifiedLog) -> None:
                    if log.pending is not None:
                        writer.go.set()
                    settle(log)

                monkeypatch.setattr(UnifiedLog, "settle", settle_when_written)
                directory.writer = writer
                assert alter(broker, target) is Errors.NONE
                future = logs.futures.logs[KEY]
                await until(lambda: future.pending is not None)
                epoch = partition.image.leader_epoch + 1
                partition.image = partition.image._replace(leader_epoch=epoch)
                moves.update(partition)
                writer.go.set()
                await moved(broker, target)
            assert contents(log_of(broker))["records"] == before["records"]

    asyncio.run(main())


@pytest.mark.parametrize("position", [0, 100])
def test_a_damaged_source_ends_its_move_with_a_word(position: int) -> None:
    """Whether it shows when a batch is looked for, or only by the checksum of what was read."""
    files = new_files()

    async def make() -> tuple[str, str, int]:
        async with node(files) as broker:
            await many_segments(await create(broker))
            log = log_of(broker)
            damaged = list(log.segments)[1]
            return damaged.path(".log"), other(log), damaged.base_offset

    path, target, offset = asyncio.run(make())
    files.open(path).write([b"\xff" * 20], position)

    async def move() -> None:
        async with node(files) as broker:
            assert alter(broker, target) is Errors.NONE
            await until(lambda: not broker.services.logs.futures.logs)
            assert log_of(broker).directory.path != target
            (text,) = [each for each in broker.reports if "stays where it is" in each]  # type: ignore[attr-defined]
            assert (path if position == 0 else f"offset {offset} ") in text

    asyncio.run(move())


def test_a_swap_whose_fetcher_ends_is_finished() -> None:
    """Appends wait for the rest of its steps, and nobody else would take them."""
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            source, target = await held_before_the_swap(broker)
            moves, partition = broker.services.replicas.moves, find(broker)
            assert moves is not None
            source.is_cleaning = False
            async with asyncio.TaskGroup() as tasks:
                key = (partition.topic_id, partition.number)
                fetcher = tasks.create_task(moves.advance(key))
                await until(lambda: source.pending is not None, seconds=0)
                fetcher.cancel()
            assert source.pending is None
            assert log_of(broker).directory is target
            partition.append(batch(1), now_ms=0)

    asyncio.run(main())


def test_a_source_that_is_cut_while_a_move_takes_its_next_step_is_read_again() -> None:
    """What was found before the cut is not what is there now."""
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            source, target = await held_before_the_swap(broker)
            partition, moves = find(broker), broker.services.replicas.moves
            assert moves is not None
            advance = moves.advance
            after: list[bytes] = []

            async def cut_first(key: PartitionId) -> bool:
                if source.log_end_offset == RECORDS:
                    return False
                moves.advance = advance  # type: ignore[method-assign]
                source.is_cleaning = False
                # Where the records were that were found, there are now those of another offset.
                truncate_to(source, RECORDS - 3, 0)
                sizes = {len(batch(1, value_bytes=size)): size for size in range(500)}
                for _ in range(5):
                    value_bytes = sizes[len(batch(3, value_bytes=100))]
                    partition.append(batch(1, value_bytes=value_bytes), now_ms=0)
                after.append(contents(source)["records"])
                return False

            moves.advance = cut_first  # type: ignore[method-assign]
            partition.append(batch(2), now_ms=0)
            await until(lambda: not broker.services.logs.futures.logs)
            assert log_of(broker).directory is target
            assert [contents(log_of(broker))["records"]] == after

    asyncio.run(main())


def test_move_that_is_cancelled_while_its_copy_is_cut_keeps_nothing_open() -> None:
    """Its fetcher ends with it, and nobody else would take the rest of the steps."""
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            source, target = await held_before_the_swap(broker)
            copy = broker.services.logs.futures.logs[KEY]
            await until(lambda: copy.log_end_offset == RECORDS and not copy.is_flushing)
            with HeldWriter() as writer:
                target.writer = writer
                truncate_to(source, RECORDS - 30, 0)
                await until(lambda: copy.pending is not None)
                assert alter(broker, source.directory.path) is Errors.NONE
                await asyncio.sleep(0.05)
                writer.go.set()
                await until(
                    lambda: (
                        not [p for p in files.open_paths() if p.startswith(f"{target.path}/t-0")]
                    )
                )
            assert target.is_online
            await until(lambda: not [n for n in files.list_directory(target.path) if "t-0" in n])

    asyncio.run(main())


def test_move_that_is_begun_again_copies_before_it_swaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetch that was under way knows of the copy before it, which had everything. Appends
    would wait while all is copied within the swap.
    """
    copied: list[int] = []
    begin_swap = FutureLogs.begin_swap

    def noted(futures: FutureLogs, source: UnifiedLog, **named: Any) -> PendingTruncation:
        copied.append(futures.logs[source.partition].log_end_offset)
        return begin_swap(futures, source, **named)

    monkeypatch.setattr(FutureLogs, "begin_swap", noted)

    async def main() -> None:
        # The other one keeps their fetcher at work.
        async with node(new_files(), "num.replica.alter.log.dirs.threads=1") as broker:
            await create(broker, 2)
            replicas, source = broker.services.replicas, log_of(broker)
            moves = replicas.moves
            assert moves is not None
            for number in range(2):
                partition = replicas.find(KEY.topic, number)
                assert isinstance(partition, Partition)
                await plain(partition)
                log = partition.online_log()
                log.is_cleaning = True
                assert moves.alter(log.partition, other(log), partition) is Errors.NONE
            target = broker.services.logs.futures.logs[KEY].directory

            def is_moved() -> bool:
                # As an append does.
                moves._wake()
                return log_of(broker).directory is target

            await until(lambda: is_assigned(broker, target))
            await asyncio.sleep(0.05)
            assert alter(broker, source.directory.path) is Errors.NONE
            assert alter(broker, target.path) is Errors.NONE
            source.is_cleaning = False
            await until(is_moved)

    asyncio.run(main())
    assert copied == [RECORDS]
