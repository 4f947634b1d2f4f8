from __future__ import annotations

import asyncio
from random import Random

import pytest

from kaa.log.dirs import LogDirectory
from kaa.log.errors import CorruptFileError
from kaa.log.properties import read_topic_id
from kaa.log.sim_files import SimFiles
from kaa.quorum import OffsetAndEpoch
from kaa.quorum.metadata_log import (
    METADATA_TOPIC_ID,
    MetadataLog,
    MetadataLogConfig,
    OpenedLog,
    open_metadata_log,
)
from kaa.quorum.snapshots import build_snapshot, snapshot_name
from kaa.records.build import BatchBuilder
from tests.unit.quorum.disk_replica import FOLDER, ROOT, DiskReplica, new_disk, settle

SMALL = MetadataLogConfig(metadata_log_segment_bytes=300)


def opened(files: SimFiles, config: MetadataLogConfig = SMALL, now_ms: int = 0) -> OpenedLog:
    return open_metadata_log(LogDirectory(files, ROOT), config, now_ms, Random(1))


def append(log: MetadataLog, value: bytes, epoch: int = 1) -> int:
    builder = BatchBuilder()
    builder.append(0, None, value)
    offset = log.append_as_leader(builder.build(), epoch, 0)
    log.update_high_watermark(log.end().offset)
    return offset


def take_snapshot(log: MetadataLog, epoch: int = 1, timestamp: int = 0) -> OffsetAndEpoch:
    snapshot_id = OffsetAndEpoch(log.end().offset, epoch)
    writer = log.begin_snapshot(snapshot_id)
    for batch in build_snapshot(
        snapshot_id, [b"state"], timestamp=0, last_contained_log_timestamp=timestamp
    ):
        writer.append(batch)
    writer.finish()
    log.add_snapshot(writer, 0)
    return snapshot_id


def flush(log: MetadataLog) -> None:
    job = log.flush_job()
    job.run()
    log.complete_flush(job, 0)


def test_a_new_log_has_the_fixed_topic_id() -> None:
    files = new_disk()
    log = opened(files).log
    assert read_topic_id(files, FOLDER) == METADATA_TOPIC_ID
    assert (log.end(), log.start_offset()) == (OffsetAndEpoch(0, 0), 0)
    assert log.latest_snapshot_id() is None


def test_a_lost_topic_id_is_written_again() -> None:
    files = new_disk()
    flush(opened(files).log)
    files.unlink(f"{FOLDER}/partition.metadata")
    opened(files)
    assert read_topic_id(files, FOLDER) == METADATA_TOPIC_ID


def test_epochs_and_ends() -> None:
    log = opened(new_disk()).log
    append(log, b"a", 1)
    append(log, b"b", 1)
    append(log, b"c", 4)
    assert log.end() == OffsetAndEpoch(3, 4)
    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(2, 1)
    assert log.end_offset_for_epoch(3) == OffsetAndEpoch(2, 1)
    assert log.end_offset_for_epoch(9) == OffsetAndEpoch(3, 4)
    pending = log.begin_truncation(1, 0)
    assert pending is not None
    pending.settle()
    assert log.begin_truncation(1, 0) is None
    assert log.end() == OffsetAndEpoch(1, 1)


def test_batches_run_over_segments() -> None:
    log = opened(new_disk()).log
    for number in range(20):
        assert append(log, b"value %d" % number) == number
    assert [batch.base_offset for batch in log.batches(3, 17)] == list(range(3, 17))
    assert list(log.batches(5, 5)) == []


def test_the_newest_snapshot_is_the_start_of_recovery() -> None:
    files = new_disk()
    log = opened(files).log
    for number in range(10):
        append(log, b"%d" % number)
    flush(log)
    snapshot_id = take_snapshot(log)
    append(log, b"tail")
    flush(log)
    again = opened(files)
    assert again.snapshot_id == snapshot_id
    assert again.snapshot is not None
    assert list(again.snapshot.values) == [b"state"]
    assert again.log.end().offset == 11


def test_a_damaged_snapshot_is_passed_over_for_an_older_one() -> None:
    files = new_disk()
    log = opened(files).log
    append(log, b"a")
    first = take_snapshot(log)
    append(log, b"b")
    second = take_snapshot(log)
    flush(log)
    files.flip_bits(log.snapshot_path(second), 80)
    directory, said = LogDirectory(files, ROOT), list[str]()
    directory.report = said.append
    assert open_metadata_log(directory, MetadataLogConfig(), 0, Random(1)).snapshot_id == first
    (line,) = said
    assert line.startswith(log.snapshot_path(second))
    assert line.endswith(f"passed over for {snapshot_name(first)} and the log after it")
    files.flip_bits(log.snapshot_path(first), 80)
    with pytest.raises(CorruptFileError):
        opened(files)


def test_a_log_that_ends_before_its_snapshot_goes_on_at_the_snapshot() -> None:
    """A snapshot was fetched, and the process ended before the log was emptied."""
    files = new_disk()
    log = opened(files).log
    append(log, b"a")
    flush(log)
    snapshot_id = OffsetAndEpoch(100, 5)
    writer = log.begin_snapshot(snapshot_id)
    for batch in build_snapshot(
        snapshot_id, [b"state"], timestamp=0, last_contained_log_timestamp=0
    ):
        writer.append(batch)
    writer.finish()
    again = opened(files).log
    assert (again.start_offset(), again.end()) == (100, OffsetAndEpoch(100, 5))
    assert again.end_offset_for_epoch(5) == OffsetAndEpoch(100, 5)
    assert append(again, b"next", 6) == 100


def test_unfinished_and_deleted_snapshots_are_removed_at_the_start() -> None:
    files = new_disk()
    log = opened(files).log
    append(log, b"a")
    writer = log.begin_snapshot(OffsetAndEpoch(1, 1))
    writer.append(b"half")
    files.create(f"{FOLDER}/00000000000000000001-0000000001.checkpoint.deleted")
    opened(files)
    assert [name for name in files.list_directory(FOLDER) if "checkpoint." in name] == []


def test_what_another_replica_sent_is_checked_before_it_is_a_snapshot() -> None:
    files = new_disk()
    log = opened(files).log
    snapshot_id = OffsetAndEpoch(5, 1)
    sent = b"".join(
        build_snapshot(snapshot_id, [b"a"], timestamp=0, last_contained_log_timestamp=0)
    )
    damaged = bytearray(sent)
    damaged[-1] ^= 1
    for content in (damaged, sent[:-1], sent):
        writer = log.begin_snapshot(snapshot_id)
        writer.append(content)
        if content is sent:
            assert list(writer.finish_checked().values) == [b"a"]
        else:
            with pytest.raises(CorruptFileError):
                writer.finish_checked()
        named = [name for name in files.list_directory(FOLDER) if name.startswith("00")]
        assert [".checkpoint" in name for name in named].count(True) == (content is sent)


def test_a_writer_can_be_abandoned() -> None:
    files = new_disk()
    log = opened(files).log
    writer = log.begin_snapshot(OffsetAndEpoch(0, 0))
    writer.append(b"x")
    writer.abandon()
    assert not any(".part" in name for name in files.list_directory(FOLDER))


def test_a_log_start_without_a_snapshot_is_refused() -> None:
    files = new_disk()
    log = opened(files).log
    for number in range(10):
        append(log, b"value %d" % number)
    flush(log)
    names = [name for name in files.list_directory(FOLDER) if name.endswith(".log")]
    for name in files.list_directory(FOLDER):
        if name.startswith(names[0].removesuffix(".log")):
            files.unlink(f"{FOLDER}/{name}")
    with pytest.raises(CorruptFileError, match="no usable snapshot"):
        opened(files)


# --- retention


def filled(config: MetadataLogConfig) -> tuple[SimFiles, MetadataLog, list[OffsetAndEpoch]]:
    """Thirty batches in small segments, with three snapshots, of ten days ago, five and now."""
    files = new_disk()
    log = opened(files, config).log
    ids = []
    for round_number, age_days in enumerate((10, 5, 0)):
        for number in range(10):
            append(log, b"value %d" % (round_number * 10 + number))
        ids.append(take_snapshot(log, timestamp=(20 - age_days) * 86_400_000))
    flush(log)
    return files, log, ids


NOW_MS = 20 * 86_400_000


def clean(log: MetadataLog, now_ms: int) -> bool:
    """Takes every step; whether the log starts later."""
    before = log.start_offset()
    for step in log.cleaning_steps(now_ms):
        step()
    return log.start_offset() > before


def test_retention_by_size_keeps_the_newest_snapshot() -> None:
    files, log, ids = filled(SMALL._replace(metadata_max_retention_bytes=1))
    assert clean(log, NOW_MS)
    assert (log.earliest_snapshot_id(), log.latest_snapshot_id()) == (ids[2], ids[2])
    assert log.start_offset() == 30
    assert log.snapshot_size_bytes(ids[0]) is None
    clean(log, NOW_MS + 60_001)
    names = files.list_directory(FOLDER)
    assert len([name for name in names if name.endswith(".log")]) == 1
    assert not any(name.endswith(".deleted") for name in names)


def test_files_go_whatever_becomes_of_the_date() -> None:
    """Somebody sets the clock by a day while removed files wait for their end."""
    config = SMALL._replace(metadata_max_retention_bytes=1)
    files, steady = new_disk(), [5]
    directory = LogDirectory(files, ROOT, monotonic_ms=lambda: steady[0])
    log = open_metadata_log(directory, config, 0, Random(1)).log
    for number in range(20):
        append(log, b"value %d" % number)
        if number % 10 == 9:
            take_snapshot(log)
    flush(log)
    assert clean(log, NOW_MS)

    def waiting() -> set[str]:
        names = [name for name in files.list_directory(FOLDER) if name.endswith(".deleted")]
        return {name.split(".")[1] for name in names}

    assert waiting() >= {"log", "checkpoint"}
    steady[0] += 59_999
    clean(log, NOW_MS + 86_400_000)
    assert waiting() >= {"log", "checkpoint"}
    steady[0] += 1
    clean(log, NOW_MS - 86_400_000)
    assert waiting() == set()


def test_retention_by_time() -> None:
    _, log, ids = filled(SMALL._replace(metadata_max_retention_ms=7 * 86_400_000))
    assert clean(log, NOW_MS)
    assert log.earliest_snapshot_id() == ids[1]
    assert log.start_offset() == ids[1].offset
    assert not clean(log, NOW_MS)


def test_retention_can_be_off() -> None:
    _, log, ids = filled(
        SMALL._replace(metadata_max_retention_bytes=-1, metadata_max_retention_ms=-1)
    )
    assert not clean(log, NOW_MS)
    assert log.earliest_snapshot_id() == ids[0]


def test_nothing_above_the_high_watermark_is_removed() -> None:
    files, log, ids = filled(SMALL._replace(metadata_max_retention_bytes=1))
    again = opened(files, SMALL._replace(metadata_max_retention_bytes=1)).log
    assert not clean(again, NOW_MS)
    again.update_high_watermark(ids[1].offset)
    assert clean(again, NOW_MS)
    assert again.earliest_snapshot_id() == ids[1]
    assert log is not again


def test_after_a_restart_older_snapshots_go() -> None:
    files, log, ids = filled(SMALL._replace(metadata_max_retention_bytes=1))
    clean(log, NOW_MS)
    clean(log, NOW_MS + 60_001)
    again = opened(files)
    assert again.snapshot_id == ids[2]
    assert again.log.earliest_snapshot_id() == ids[2]
    assert again.log.start_offset() <= ids[2].offset


def test_a_snapshot_that_a_fetched_one_overtook_does_not_stay() -> None:
    """As the oldest it would keep retention from all that come after it."""
    files = new_disk()
    log = opened(files, SMALL._replace(metadata_max_retention_bytes=1)).log
    append(log, b"value")
    slow = log.begin_snapshot(OffsetAndEpoch(1, 1))
    for batch in build_snapshot(slow.id, [b""], timestamp=0, last_contained_log_timestamp=0):
        slow.append(batch)
    fetched = log.begin_snapshot(OffsetAndEpoch(20, 2))
    for batch in build_snapshot(fetched.id, [b""], timestamp=0, last_contained_log_timestamp=0):
        fetched.append(batch)
    fetched.finish()
    log.add_snapshot(fetched, NOW_MS)
    log.start_at_snapshot(fetched.id, NOW_MS)
    slow.finish()
    log.add_snapshot(slow, NOW_MS)
    assert log.earliest_snapshot_id() == fetched.id
    append(log, b"another", epoch=2)
    newest = take_snapshot(log, epoch=2)
    assert clean(log, NOW_MS + 60_001)
    assert log.earliest_snapshot_id() == newest
    names = files.list_directory(FOLDER)
    assert not any(name.startswith("00000000000000000001-") for name in names)


def test_pieces_of_a_snapshot_can_be_read() -> None:
    _, log, ids = filled(SMALL)
    size = log.snapshot_size_bytes(ids[0])
    assert size is not None
    file = log.open_snapshot(ids[0])
    parts = [file.read(10, position) for position in range(0, size, 10)]
    assert b"".join(parts) == file.read(size, 0)
    file.close()


def test_closing_leaves_no_open_file() -> None:
    async def scenario() -> None:
        files = new_disk()
        replica = DiskReplica(files)
        await settle()
        replica.append(b"x")
        await settle()
        replica.driver.close()
        replica.log.close(0)
        assert files.open_handles == 0

    asyncio.run(scenario())
