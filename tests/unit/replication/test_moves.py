"""Replicas that move between directories: what they are afterwards, and what may happen."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from kaa.controller.directories import UNASSIGNED
from kaa.log.producer_snapshots import encode_producer_snapshot
from kaa.log.segment import SegmentRegion
from kaa.log.sim_files import Fault, Inspection, Operation, SimFiles
from kaa.log.truncation import truncate_to
from kaa.replication.moves import MoveProgress, Stage, next_stage
from kaa.wire.errors import Errors
from tests.unit.log.batches import batch
from tests.unit.replication.movers import (
    DIRECTORIES,
    KEY,
    KINDS,
    alter,
    begin_swap,
    contents,
    create,
    find,
    idempotent,
    log_of,
    many_segments,
    moved,
    new_files,
    node,
    other,
    plain,
    throttle,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaa.broker.node import Broker
    from kaa.log.log import UnifiedLog
    from kaa.replication.partition import Partition

SLOW_BYTES_PER_SECOND = 2_000


def folders(files: SimFiles, mark: str) -> list[str]:
    return [
        name
        for path in DIRECTORIES
        for name in files.list_directory(path)
        if name.endswith(f"-{mark}")
    ]


def assigned(broker: Broker) -> object:
    return broker.services.image.topics["t"].partitions[0].directories[0]


def test_stages_come_in_order_and_a_busy_log_is_waited_for() -> None:
    for flushed, told, source_busy, future_busy in product([False, True], repeat=4):
        stage = next_stage(MoveProgress(flushed, told, source_busy, future_busy))
        assert (stage is Stage.SWAP) == (flushed and told and not source_busy and not future_busy)
        if not future_busy and not flushed:
            assert stage is Stage.FLUSH


@pytest.mark.parametrize("fill", KINDS, ids=lambda fill: fill.__name__)
def test_moved_log_is_the_same_before_and_after_a_restart(
    fill: Callable[[Partition], Awaitable[None]],
) -> None:
    files = new_files()

    async def move() -> dict[str, object]:
        async with node(files) as broker:
            partition = await create(broker)
            await fill(partition)
            before, source = contents(log_of(broker)), log_of(broker)
            target = other(source)
            assert alter(broker, target) is Errors.NONE
            await moved(broker, target)
            after = contents(log_of(broker))
            assert after == before
            assert source.is_closed
            partition.append(batch(2), now_ms=1)
            assert log_of(broker).high_watermark == before["end"] + 2
            assert assigned(broker) == log_of(broker).directory.directory_id
            assert not folders(files, "future")
            return contents(log_of(broker))

    async def again(expected: dict[str, object]) -> None:
        async with node(files) as broker:
            found = contents(log_of(broker))
            # The leader has a new epoch after a restart.
            epochs = expected.pop("epochs")
            assert isinstance(epochs, list)
            assert found.pop("epochs")[: len(epochs)] == epochs
            assert found == expected

    asyncio.run(again(asyncio.run(move())))


def test_move_under_load_loses_nothing_and_ends() -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            partition = await create(broker)
            await plain(partition)
            target, ends = other(log_of(broker)), [partition.online_log().log_end_offset]
            assert alter(broker, target) is Errors.NONE
            for _ in range(3000):
                info = await partition.append_later(batch(2, value_bytes=300), now_ms=0)
                assert info.first_offset == ends[-1]
                ends.append(info.last_offset + 1)
                if log_of(broker).directory.path == target:
                    break
                await asyncio.sleep(0)
            await moved(broker, target)
            assert log_of(broker).log_end_offset == ends[-1]
            found = contents(log_of(broker))["records"]
            assert isinstance(found, bytes)
            assert len(found) == log_of(broker).size_in_bytes

    asyncio.run(main())


def test_compacted_log_with_gaps_moves() -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            configs = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
            partition = await create(broker, **configs)
            for number in range(12):
                value = b"%d" % number
                partition.append(batch([(b"a", value), (b"b", value)]), now_ms=0)
                partition.online_log().roll(0)
            logs = broker.services.logs
            logs.cleaner.config = replace(logs.config, log_cleaner_enable=True)
            for job in logs.cleaner.work(10**12):
                if job is not None:
                    job.run()
                    job.done(0)
            before = contents(log_of(broker))
            assert log_of(broker).size_in_bytes < 12 * len(batch([(b"a", b"1"), (b"b", b"1")]))
            target = other(log_of(broker))
            assert alter(broker, target) is Errors.NONE
            await moved(broker, target)
            assert contents(log_of(broker)) == before

    asyncio.run(main())


def test_log_start_that_overtakes_the_copy_is_followed() -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            partition = await create(broker)
            await plain(partition)
            target = other(log_of(broker))
            assert alter(broker, target) is Errors.NONE
            future = broker.services.logs.futures.logs[KEY]
            await asyncio.sleep(0.05)
            for number in range(50):
                partition.append(batch(1), now_ms=number)
            source = log_of(broker)
            source.roll(0)
            partition.append(batch(1), now_ms=0)
            source.increment_log_start_offset(source.log_end_offset - 1)
            source.remove_segments([source.segments.first], 0)
            before = contents(source)
            assert future.log_end_offset < source.log_start_offset
            await throttle(broker, None)
            await until(lambda: log_of(broker).directory.path == target)
            assert contents(log_of(broker)) == before

    asyncio.run(main())


def test_truncation_of_the_source_is_followed_where_epochs_do_not_tell() -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            partition = await create(broker)
            await plain(partition)
            moves = broker.services.replicas.moves
            assert moves is not None
            # Held before the swap, so that everything is copied when the source is cut.
            moves._assigned = lambda *_: None
            target = other(log_of(broker))
            assert alter(broker, target) is Errors.NONE
            future = broker.services.logs.futures.logs[KEY]
            await until(lambda: future.log_end_offset == log_of(broker).log_end_offset)
            truncate_to(log_of(broker), 90, 0)
            for _ in range(30):
                partition.append(batch(3, value_bytes=77), now_ms=0)
            before = contents(log_of(broker))
            moves._assigned = broker._assignments.note
            await moved(broker, target)
            assert contents(log_of(broker)) == before

    asyncio.run(main())


def test_second_target_replaces_the_first_and_the_current_directory_ends_a_move() -> None:
    async def main() -> None:
        files = new_files()
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            partition = await create(broker)
            await plain(partition)
            source = log_of(broker)
            target = other(source)
            assert alter(broker, target) is Errors.NONE
            future = broker.services.logs.futures.logs[KEY]
            assert alter(broker, target) is Errors.NONE
            assert broker.services.logs.futures.logs[KEY] is future
            assert alter(broker, source.directory.path) is Errors.NONE
            assert not broker.services.logs.futures.logs
            assert not folders(files, "future")
            assert len(folders(files, "delete")) == 1
            assert not source.is_moving
            before = contents(source)
            await asyncio.sleep(0.05)
            assert contents(log_of(broker)) == before
            assert log_of(broker) is source
            assert alter(broker, target) is Errors.NONE
            assert broker.services.logs.futures.logs[KEY] is not future

    asyncio.run(main())


def test_requests_of_one_moment_are_one_move_and_a_short_one_leaves_nothing() -> None:
    """Of an empty log, so that the move is over as soon as anything can be."""

    async def main() -> None:
        files = new_files()
        async with node(files) as broker:
            partition = await create(broker)
            moves = broker.services.replicas.moves
            assert moves is not None
            for _ in range(3):
                target = other(log_of(broker))
                assert {alter(broker, target) for _ in range(3)} == {Errors.NONE}
                assert len(folders(files, "future")) == 1
                await moved(broker, target)
                assert moves.get(partition) is None
                assert not log_of(broker).is_moving
                assert alter(broker, target) is Errors.NONE
                assert not folders(files, "future"), "it is there already"

    asyncio.run(main())


def test_neither_copy_nor_swap_waits_for_a_disk_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = new_files()
    threads: dict[str, set[int]] = {"read": set(), "sync": set(), "sync_directory": set()}
    read, read_into, step = SegmentRegion.read, SegmentRegion.read_into, files.step

    def note_read(region: SegmentRegion) -> None:
        if region.segment.folder.startswith(DIRECTORIES):
            threads["read"].add(threading.get_ident())

    def noted_read(region: SegmentRegion, *arguments: int) -> bytes:
        note_read(region)
        return read(region, *arguments)

    def noted_read_into(region: SegmentRegion, buffer: memoryview) -> None:
        note_read(region)
        read_into(region, buffer)

    def noted_step(operation: Operation, path: str) -> None:
        if operation in threads and path.startswith(DIRECTORIES):
            threads[operation].add(threading.get_ident())
        step(operation, path)

    async def main() -> None:
        async with node(files) as broker:
            await many_segments(await create(broker))
            await until(lambda: assigned(broker) != UNASSIGNED)
            target = other(log_of(broker))
            with monkeypatch.context() as patch:
                patch.setattr(SegmentRegion, "read", noted_read)
                patch.setattr(SegmentRegion, "read_into", noted_read_into)
                patch.setattr(files, "step", noted_step)
                assert alter(broker, target) is Errors.NONE
                await moved(broker, target)

    asyncio.run(main())
    for operation, found in threads.items():
        assert found, operation
        assert threading.get_ident() not in found, operation


def test_unknown_offline_and_cordoned_directories_and_partitions_that_are_not_here() -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            assert alter(broker, "/c") is Errors.LOG_DIR_NOT_FOUND
            assert alter(broker, "/a") is Errors.UNKNOWN_TOPIC_OR_PARTITION
            first, second = broker.services.logs.directories
            assert alter(broker, "/b") is Errors.UNKNOWN_TOPIC_OR_PARTITION
            # What was asked for before the partition was there is remembered.
            await create(broker)
            assert log_of(broker).directory is second
            first.is_cordoned = True
            assert alter(broker, "/a") is Errors.INVALID_REPLICA_ASSIGNMENT
            first.is_cordoned = False
            first.fail(OSError("dead"))
            assert alter(broker, "/a") is Errors.KAFKA_STORAGE_ERROR
            assert not broker.services.logs.futures.logs

    asyncio.run(main())


def test_move_goes_on_after_a_restart() -> None:
    files = new_files()

    async def begin() -> dict[str, object]:
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            await plain(await create(broker))
            await until(lambda: assigned(broker) != UNASSIGNED)
            assert alter(broker, other(log_of(broker))) is Errors.NONE
            await asyncio.sleep(0.05)
            return contents(log_of(broker))

    async def finish(before: dict[str, object]) -> None:
        async with node(files) as broker:
            await throttle(broker, None)
            await until(lambda: not broker.services.logs.futures.logs)
            assert contents(log_of(broker))["records"] == before["records"]
            assert not folders(files, "future")
            assert assigned(broker) == log_of(broker).directory.directory_id

    before = asyncio.run(begin())
    assert len(folders(files, "future")) == 1
    asyncio.run(finish(before))


def test_topic_that_is_deleted_meanwhile_leaves_nothing() -> None:
    async def main() -> None:
        files = new_files()
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            await plain(await create(broker))
            assert alter(broker, other(log_of(broker))) is Errors.NONE
            await delete(broker)
            await until(lambda: "t" not in broker.services.image.topics)
            await until(lambda: not broker.services.logs.futures.logs)
            assert not folders(files, "future")
            assert len(folders(files, "delete")) == 2

    asyncio.run(main())


async def delete(broker: Broker) -> None:
    from kaa.controller.port import ControllerRequestContext
    from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState

    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
    await broker.services.controller.submit(request, ControllerRequestContext(6))


@pytest.mark.parametrize("fails", ["source", "target"])
def test_directory_that_fails_meanwhile(fails: str) -> None:
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            partition = await create(broker)
            await plain(partition)
            await until(lambda: assigned(broker) != UNASSIGNED)
            source = log_of(broker)
            before = contents(source)
            assert alter(broker, other(source)) is Errors.NONE
            future = broker.services.logs.futures.logs[KEY]
            broken = source if fails == "source" else future
            broken.directory.fail(OSError("dead"))
            moves = broker.services.replicas.moves
            assert moves is not None
            await until(lambda: moves.get(partition) is None)
            if fails == "source":
                assert broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR
            else:
                assert contents(log_of(broker)) == before
                assert find(broker).is_leader

    asyncio.run(main())
    # What was copied from a disk that died may be the last copy of it.
    assert len(folders(files, "future")) == 1


@pytest.mark.parametrize("operation", ["open", "read"])
def test_source_that_cannot_be_read_goes_offline_and_ends_the_move(operation: Inspection) -> None:
    files = new_files()

    async def main() -> None:
        async with node(files) as broker:
            partition = await create(broker)
            await many_segments(partition)
            await until(lambda: assigned(broker) != UNASSIGNED)
            source, target = log_of(broker), other(log_of(broker))
            source.rest()
            files.faults = [Fault(operation, f"{source.directory.path}/t-0/", times=10**9)]
            assert alter(broker, target) is Errors.NONE
            moves = broker.services.replicas.moves
            assert moves is not None
            await until(lambda: moves.get(partition) is None)
            assert broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR
            assert [one.path for one in broker.services.logs.online_directories] == [target]
            # The read that failed gives its file back a turn later.
            await until(
                lambda: not [p for p in files.open_paths() if p.startswith(f"{source.folder}/")]
            )
            files.faults = []

    asyncio.run(main())


def keep_tail(log: UnifiedLog, local_start: int) -> None:
    """What comes before is in remote storage alone from now on."""
    log.flush(0)
    log.copied_offset = local_start - 1
    log.local_log_start_offset = local_start
    log.remove_segments([each for each in log.segments if each.base_offset < local_start], 0)


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_tiered_log_brings_what_only_remote_segments_tell(
    is_overtaken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the disk of the source begins later before the copy has come so far."""

    async def main() -> None:
        async with node(new_files()) as broker:
            partition = await create(broker)
            await idempotent(partition)
            logs, log = broker.services.logs, log_of(broker)
            tiered = replace(log.config, remote_storage_enable=True)
            monkeypatch.setattr(logs, "_topic_config", lambda _: tiered)
            logs.update_topic_config(KEY.topic, [0])
            starts = []
            for _ in range(3):
                log.roll(0)
                starts.append(log.log_end_offset)
                partition.append(batch(3, value_bytes=500), now_ms=0)
            keep_tail(log, starts[0])
            target = other(log)
            if is_overtaken:
                await throttle(broker, SLOW_BYTES_PER_SECOND)
                assert alter(broker, target) is Errors.NONE
                future = broker.services.logs.futures.logs[KEY]
                await until(lambda: future.local_log_start_offset == starts[0] != 0)
                keep_tail(log, starts[2])
                await throttle(broker, None)
            else:
                assert alter(broker, target) is Errors.NONE
            before = tiered_state(log)
            await moved(broker, target)
            found = log_of(broker)
            assert tiered_state(found) == before
            assert (found.log_start_offset, found.log_end_offset) == (2, log.log_end_offset)
            assert found.local_log_start_offset in {starts[0], log.local_log_start_offset}
            assert found.segments.first.base_offset == found.local_log_start_offset

    asyncio.run(main())


def tiered_state(log: UnifiedLog) -> tuple[object, ...]:
    producers = encode_producer_snapshot(log.producer_state.producers.values())
    return log.leader_epochs.entries, producers, log.copied_offset, log.high_watermark


def test_throttle_holds_and_may_be_changed_meanwhile() -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            await plain(await create(broker))
            size, target = log_of(broker).size_in_bytes, other(log_of(broker))
            assert size > 10_000
            began = asyncio.get_running_loop().time()
            assert alter(broker, target) is Errors.NONE
            await asyncio.sleep(0.3)
            assert log_of(broker).directory.path != target
            await throttle(broker, None)
            await moved(broker, target)
            assert asyncio.get_running_loop().time() - began < size / 2000

    asyncio.run(main())


def test_copy_whose_source_is_on_a_lost_disk_is_kept_until_the_disk_is_back() -> None:
    files = new_files()

    async def begin() -> str:
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            await plain(await create(broker))
            await until(lambda: assigned(broker) != UNASSIGNED)
            source = log_of(broker).directory.path
            assert alter(broker, other(log_of(broker))) is Errors.NONE
            return source

    async def without() -> None:
        async with node(files) as broker:
            assert broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR
            assert KEY in broker.services.logs.futures.logs

    async def again() -> None:
        async with node(files) as broker:
            assert log_of(broker).log_end_offset == 150
            await throttle(broker, None)
            await until(lambda: not broker.services.logs.futures.logs)
            assert log_of(broker).log_end_offset == 150

    source = asyncio.run(begin())
    files.rename(source, "/gone")
    asyncio.run(without())
    assert len(files.list_directory("/gone")) > 1
    files.rename("/gone", source)
    asyncio.run(again())
    assert not folders(files, "future")


def test_swap_that_a_crash_ended_between_its_renames_is_finished_by_the_next_start() -> None:
    files = new_files()

    async def almost() -> tuple[str, dict[str, object]]:
        async with node(files) as broker:
            await plain(await create(broker))
            source = log_of(broker)
            # Busy, so that everything but the swap is done.
            source.is_cleaning = True
            target = next(
                each for each in broker.services.logs.directories if each is not source.directory
            )
            assert alter(broker, target.path) is Errors.NONE
            await until(lambda: assigned(broker) == target.directory_id)
            return source.folder, contents(source)

    async def again(before: dict[str, object]) -> None:
        async with node(files) as broker:
            assert contents(log_of(broker))["records"] == before["records"]
            assert assigned(broker) == log_of(broker).directory.directory_id
            assert find(broker).is_leader

    folder, before = asyncio.run(almost())
    begin_swap(files, folder)
    asyncio.run(again(before))
    assert not folders(files, "future")


def test_copy_of_a_partition_that_nobody_knows_is_removed_when_all_disks_are_there() -> None:
    files = new_files()
    files.make_directory("/b/unknown-0.0123456789abcdef0123456789abcdef-future")

    async def main() -> None:
        async with node(files) as broker:
            assert not broker.services.logs.futures.logs
            assert not folders(files, "future")

    asyncio.run(main())


def test_future_log_has_the_settings_of_its_topic() -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            await plain(await create(broker, retention_ms="12345678"))
            assert alter(broker, other(log_of(broker))) is Errors.NONE
            future = broker.services.logs.futures.logs[KEY]
            assert future.config is log_of(broker).config
            assert future.config.retention_ms == 12345678

    asyncio.run(main())


def test_producers_that_stop_in_the_middle_do_not_hold_a_move_up() -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            partition = await create(broker)
            await plain(partition)
            for round_number in range(5):
                target = other(log_of(broker))
                assert alter(broker, target) is Errors.NONE
                for _ in range(20 * round_number):
                    partition.append(batch(1), now_ms=0)
                    await asyncio.sleep(0)
                await moved(broker, target)

    asyncio.run(main())
