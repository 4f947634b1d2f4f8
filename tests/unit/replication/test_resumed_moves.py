"""Moves that go on after a restart: with the copy that was found, as far as it can be relied on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kaa.controller.directories import UNASSIGNED
from kaa.log.checkpoints import encode_offset_checkpoint
from kaa.log.errors import DamagedLogError, LogError, ShortageError, StorageError
from kaa.log.files import read_whole, write_atomically
from kaa.log.futures import FutureLogs
from kaa.log.names import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_CHECKPOINT_FILE
from kaa.log.properties import write_topic_id
from kaa.log.sim_files import Fault
from kaa.records.batch import iter_batches
from kaa.records.record import iter_records
from kaa.wire.errors import Errors
from tests.support.ids import uuid
from tests.unit.log.batches import batch
from tests.unit.replication.movers import (
    DIRECTORIES,
    KEY,
    alter,
    contents,
    create,
    find,
    futures,
    log_of,
    moved,
    new_files,
    node,
    other,
    plain,
    throttle,
    until,
)

if TYPE_CHECKING:
    from kaa.broker.node import Broker
    from kaa.log.sim_files import SimFiles

SLOW_BYTES_PER_SECOND = 2_000


def assigned(broker: Broker) -> object:
    return broker.services.image.topics["t"].partitions[0].directories[0]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_copy_that_a_crash_left_is_gone_on_with_where_no_hole_can_be(policy: str) -> None:
    """In a compacted log a hole that a power cut left does not show, since batches may be missing
    anywhere: only what was made durable counts.
    """
    files = new_files()

    async def begin() -> tuple[bytes, int]:
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            await plain(await create(broker, cleanup_policy=policy))
            await until(lambda: assigned(broker) != UNASSIGNED)
            assert alter(broker, other(log_of(broker))) is Errors.NONE
            future = broker.services.logs.futures.logs[KEY]
            await until(lambda: future.log_end_offset > 0)
            durable = future.log_end_offset
            future.roll(0)
            await until(lambda: future.log_end_offset > durable)
            return bytes(contents(log_of(broker))["records"]), durable

    before, durable = asyncio.run(begin())
    (copy,) = futures(files)
    target = copy.rpartition("/")[0]
    for path in DIRECTORIES:
        files.unlink(f"{path}/{CLEAN_SHUTDOWN_FILE}")
    points = encode_offset_checkpoint({KEY: durable})
    write_atomically(files, f"{target}/{RECOVERY_POINT_CHECKPOINT_FILE}", points)
    if policy == "compact":
        # The first batch after those that were durable.
        tail = f"{copy}/{durable:020}.log"
        content = read_whole(files, tail)
        first_bytes = 12 + int.from_bytes(content[8:12], "big")
        write_atomically(files, tail, content[first_bytes:])

    async def finish() -> None:
        async with node(files) as broker:
            assert futures(files) == [copy]
            assert broker.services.logs.futures.logs[KEY].log_end_offset >= durable
            await throttle(broker, None)
            await until(lambda: not broker.services.logs.futures.logs)
            assert contents(log_of(broker))["records"] == before

    asyncio.run(finish())


def begun(files: SimFiles, *, batches: int = 1, rolls: bool = False) -> bytes:
    """What the source has of a move that has copied some of it, so many batches at least; with
    `rolls` into a segment that is closed and durable.
    """

    async def main() -> bytes:
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            await plain(await create(broker))
            assert alter(broker, other(log_of(broker))) is Errors.NONE
            future = broker.services.logs.futures.logs[KEY]
            await until(lambda: future.log_end_offset >= 3 * batches)
            if rolls:
                end_offset = future.log_end_offset
                future.roll(0)
                future.flush(0)
                await until(lambda: future.log_end_offset > end_offset)
            return bytes(contents(log_of(broker))["records"])

    return asyncio.run(main())


def arrives(files: SimFiles, before: bytes, *, is_clean: bool) -> list[str]:
    """Starts again, after a stop of this kind, and has the move finished with all records; what
    was reported.
    """
    for path in () if is_clean else DIRECTORIES:
        files.unlink(f"{path}/{CLEAN_SHUTDOWN_FILE}")

    async def main() -> list[str]:
        async with node(files) as broker:
            source = log_of(broker)
            await throttle(broker, None)
            await until(lambda: not broker.services.logs.futures.logs)
            assert log_of(broker) is not source
            assert log_of(broker).log_start_offset == 0
            assert contents(log_of(broker))["records"] == before
            return list(broker.reports)  # type: ignore[attr-defined]

    return asyncio.run(main())


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_copy_is_made_again(*, is_clean: bool) -> None:
    files = new_files()
    before = begun(files)
    (copy,) = futures(files)
    files.open(f"{copy}/{0:020}.log").write([b"\xff" * 20], 0)
    arrives(files, before, is_clean=is_clean)


# In the second batch of a copy: the leader epoch, the checksum, and what a record has.
EPOCH_AT, CHECKSUM_AT, VALUE_AT = 15, 17, 100


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("at", "damage"),
    [
        pytest.param(VALUE_AT, b"\0" * 30, id="zeroed"),
        pytest.param(VALUE_AT, b"\x01", id="flipped"),
        pytest.param(CHECKSUM_AT, b"\x01\x02\x03\x04", id="checksum"),
        pytest.param(EPOCH_AT, b"\x01", id="epoch"),
        pytest.param(0, b"\0" * 100, id="whole header"),
    ],
)
def test_a_copy_in_which_bytes_changed_while_the_broker_was_down_is_made_again(
    at: int, damage: bytes, *, is_clean: bool
) -> None:
    """It has as many bytes as before, and its end is whole: only a look at each batch tells."""
    files = new_files()
    before = begun(files, batches=3, rolls=True)
    (copy,) = futures(files)
    path = f"{copy}/{0:020}.log"
    stored = read_whole(files, path)
    batch_bytes = 12 + int.from_bytes(stored[8:12], "big")
    assert len(stored) >= 3 * batch_bytes
    files.open(path).write([damage], batch_bytes + at)
    assert read_whole(files, path) != stored
    reports = arrives(files, before, is_clean=is_clean)
    (text,) = [each for each in reports if "It is made again" in each]
    assert text.startswith(f"the copy of t-0 in {copy.rpartition('/')[0]} ")


def test_a_copy_that_is_whole_is_gone_on_with() -> None:
    files = new_files()
    before = begun(files)
    reports = arrives(files, before, is_clean=True)
    assert not [each for each in reports if "It is made again" in each]


def test_a_damaged_copy_of_an_earlier_topic_goes() -> None:
    files = new_files()
    begun(files)
    (copy,) = futures(files)
    files.open(f"{copy}/{0:020}.log").write([b"\xff" * 20], 0)
    files.unlink(f"{copy}/partition.metadata")
    write_topic_id(files, copy, uuid(77))

    async def main() -> None:
        async with node(files) as broker:
            source = log_of(broker)
            assert not broker.services.logs.futures.logs
            await throttle(broker, None)
            assert log_of(broker) is source
            assert futures(files) == []

    asyncio.run(main())


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_copy_that_lost_its_beginning_is_made_again(*, is_clean: bool) -> None:
    files = new_files()

    async def begin() -> bytes:
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            await plain(await create(broker))
            assert alter(broker, other(log_of(broker))) is Errors.NONE
            future = broker.services.logs.futures.logs[KEY]
            await until(lambda: future.log_end_offset > 0)
            first_end = future.log_end_offset
            future.roll(0)
            await until(lambda: future.log_end_offset > first_end)
            return bytes(contents(log_of(broker))["records"])

    before = asyncio.run(begin())
    (copy,) = futures(files)
    files.unlink(f"{copy}/{0:020}.log")
    arrives(files, before, is_clean=is_clean)


def test_a_copy_that_is_not_whole_does_not_take_the_place_of_a_damaged_log() -> None:
    """The controller knew the target already, and records came that were not copied yet."""
    files = new_files()

    async def begin() -> str:
        async with node(files) as broker:
            await plain(await create(broker))
            source, partition = log_of(broker), find(broker)
            await until(lambda: assigned(broker) == source.directory.directory_id)
            source.is_cleaning = True
            assert alter(broker, other(source)) is Errors.NONE
            future = broker.services.logs.futures.logs[KEY]
            await until(lambda: assigned(broker) == future.directory.directory_id)
            await throttle(broker, 1)
            copied = future.log_end_offset
            for _ in range(5):
                partition.append(batch(1), now_ms=0)
            await until(lambda: source.pending is None)
            assert future.log_end_offset <= copied + 1
            assert source.log_end_offset == copied + 5
            source.is_cleaning = False
            return source.folder

    folder = asyncio.run(begin())
    (copy,) = futures(files)
    files.open(f"{folder}/{0:020}.log").truncate(0)

    async def main() -> None:
        async with node(files) as broker:
            assert broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR

    asyncio.run(main())
    assert futures(files) == [copy]


def test_what_a_move_left_behind_is_kept_if_its_target_is_lost() -> None:
    """A crash between the two renames of a swap may leave nothing else on the disks that work."""
    files = new_files()

    async def move() -> tuple[str, str]:
        async with node(files) as broker:
            await plain(await create(broker, file_delete_delay_ms="600000"))
            source = log_of(broker).directory.path
            target = other(log_of(broker))
            await until(lambda: assigned(broker) != UNASSIGNED)
            assert alter(broker, target) is Errors.NONE
            await until(lambda: bool(left(source)))
            await moved(broker, target)
            return source, target

    def left(path: str) -> list[str]:
        return [name for name in files.list_directory(path) if name.startswith("t-0.")]

    source, target = asyncio.run(move())
    (name,) = left(source)
    assert name.endswith("-delete")
    files.faults = [Fault("open", f"{target}/meta.properties", times=9)]

    async def start() -> None:
        async with node(files) as broker:
            assert broker.services.replicas.find(*KEY) is Errors.KAFKA_STORAGE_ERROR
            (kept,) = left(source)
            assert kept == name.replace("-delete", "-stray")
            reports = broker.reports  # type: ignore[attr-defined]
            assert [text for text in reports if text.startswith(f"{source}/{kept} ")]

    asyncio.run(start())
    files.faults = []

    async def again() -> None:
        async with node(files) as broker:
            assert log_of(broker).directory.path == target

    asyncio.run(again())


@pytest.mark.parametrize("error", [StorageError("too many files are open"), DamagedLogError("t")])
def test_a_copy_that_cannot_be_gone_on_with_gives_way_to_another_one(
    monkeypatch: pytest.MonkeyPatch, error: LogError
) -> None:
    files = new_files()
    before = begun(files)

    def refuse(*_: object) -> None:
        raise error

    async def main() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("kaa.log.futures.FutureLogs.resume", refuse)
            async with node(files) as broker:
                is_kept = isinstance(error, StorageError)
                assert bool(broker.services.logs.futures.logs) is is_kept
                reports = [one for one in broker.reports if "stays where it is" in one]  # type: ignore[attr-defined]
                assert len(reports) == (0 if is_kept else 1)
                await throttle(broker, None)
                target = other(log_of(broker))
                assert alter(broker, target) is Errors.NONE
                await moved(broker, target)
                assert contents(log_of(broker))["records"] == before

    asyncio.run(main())


def test_a_copy_is_gone_on_with_when_fewer_files_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    files = new_files()
    before = begun(files)
    (copy,) = futures(files)

    def refuse(*_: object) -> None:
        raise ShortageError("too many files are open")

    async def main() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(FutureLogs, "resume", refuse)
            async with node(files) as broker:
                await throttle(broker, None)
                await until(lambda: find(broker).is_leader)
                # No change of the metadata comes that has it tried.
                await asyncio.sleep(0.1)
                assert futures(files) == [copy]
                patch.undo()
                await moved(broker, copy.rpartition("/")[0])
                assert contents(log_of(broker))["records"] == before

    asyncio.run(main())


def compact(broker: Broker) -> None:
    logs = broker.services.logs
    logs.cleaner.config = replace(logs.config, log_cleaner_enable=True)
    for job in logs.cleaner.work(10**14):
        if job is not None:
            job.run()
            job.done(0)


def keys(broker: Broker) -> set[bytes | None]:
    batches = iter_batches(bytes(contents(log_of(broker))["records"]))
    return {
        None if record.key is None else bytes(record.key)
        for each in batches
        for record in iter_records(each)
    }


def test_key_that_was_deleted_while_the_disk_of_the_copy_was_away_does_not_come_back() -> None:
    """The copy has the record, and its tombstone has been and gone."""
    files = new_files()

    async def begin() -> str:
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            policy = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0"}
            partition = await create(broker, **policy, delete_retention_ms="0")
            partition.append(batch([(b"gone", b"1")]), now_ms=0)
            for number in range(50):
                content = batch([(b"%d" % number, bytes(300))])
                partition.append(content, now_ms=0)
            await until(lambda: assigned(broker) != UNASSIGNED)
            target = other(log_of(broker))
            assert alter(broker, target) is Errors.NONE
            copy = broker.services.logs.futures.logs[KEY]
            await until(lambda: copy.log_end_offset > 0)
            return target

    async def delete() -> None:
        async with node(files) as broker:
            partition = broker.services.replicas.find(*KEY)
            assert not isinstance(partition, Errors)
            partition.append(batch([(b"gone", None)]), now_ms=0)
            for _ in range(2):
                partition.online_log().roll(0)
                partition.append(batch([(b"0", b"1")]), now_ms=0)
                compact(broker)
            assert b"gone" not in keys(broker)

    async def finish(target: str) -> None:
        async with node(files) as broker:
            await throttle(broker, None)
            await until(lambda: log_of(broker).directory.path == target)
            assert b"gone" not in keys(broker)
            assert len(keys(broker)) == 50

    target = asyncio.run(begin())
    files.rename(target, "/away")
    asyncio.run(delete())
    files.rename("/away", target)
    asyncio.run(finish(target))


def test_nothing_is_copied_to_a_copy_before_it_was_read() -> None:
    """Whatever changes in the metadata; and a move that is cancelled by then leaves nothing."""
    files = new_files()
    begun(files)
    (copy,) = futures(files)

    async def main() -> None:
        async with node(files) as broker:
            # The rate that was set is so low that it takes long to read the copy.
            source, partition = log_of(broker), find(broker)
            future, moves = broker.services.logs.futures.logs[KEY], broker.services.replicas.moves
            assert moves is not None
            end_offset = future.log_end_offset
            await throttle(broker, 1)
            moves.update(partition)
            await asyncio.sleep(0.1)
            assert future.log_end_offset == end_offset
            assert alter(broker, copy.rpartition("/")[0]) is Errors.NONE
            assert broker.services.logs.futures.logs[KEY] is future
            assert alter(broker, source.directory.path) is Errors.NONE
            assert futures(files) == []
            await asyncio.sleep(0.1)
            assert log_of(broker) is source
            assert all(each.is_online for each in broker.services.logs.directories)
            assert not source.is_moving

    asyncio.run(main())


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("is_damaged", [True, False])
def test_move_whose_target_failed_ends_and_goes_on_when_the_disk_is_back(
    policy: str, *, is_damaged: bool
) -> None:
    """As in Kafka: the copy on the disk that failed cannot be removed, and the next start finds
    it. What was written meanwhile is copied, and a copy that the failing disk has damaged is made
    again.
    """
    files = new_files()

    async def begin() -> tuple[str, str]:
        async with node(files) as broker:
            await throttle(broker, SLOW_BYTES_PER_SECOND)
            await plain(await create(broker, cleanup_policy=policy))
            source, moves = log_of(broker), broker.services.replicas.moves
            assert moves is not None
            await until(lambda: assigned(broker) == source.directory.directory_id)
            assert alter(broker, other(source)) is Errors.NONE
            future = broker.services.logs.futures.logs[KEY]
            await until(lambda: future.log_end_offset >= 9)
            future.roll(0)
            future.flush(0)
            # What is durable is not looked at when the log is loaded.
            future.directory.checkpoint_recovery_points()
            files.faults = [Fault("write", future.folder)]
            await until(lambda: not future.directory.is_online)
            await until(lambda: moves.get(find(broker)) is None)
            assert future.is_closed
            assert not source.is_moving
            # Another copy might be on the disk that is away.
            assert alter(broker, other(source)) is Errors.KAFKA_STORAGE_ERROR
            find(broker).append(batch(1, value_bytes=50), now_ms=0)
            return future.folder, source.directory.path

    async def finish() -> None:
        async with node(files) as broker:
            assert log_of(broker).directory.path == source
            before = contents(log_of(broker))
            await throttle(broker, None)
            await moved(broker, folder.rpartition("/")[0])
            assert contents(log_of(broker)) == before
            reports = broker.reports  # type: ignore[attr-defined]
            assert is_damaged is bool([one for one in reports if "It is made again" in one])

    folder, source = asyncio.run(begin())
    assert futures(files) == [folder]
    files.faults = []
    if is_damaged:
        files.open(f"{folder}/{0:020}.log").write([bytes(30)], 100)
    asyncio.run(finish())
    assert futures(files) == []
