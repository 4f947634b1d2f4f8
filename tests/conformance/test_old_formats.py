"""Logs with messages of magic 0 and 1, loaded by Kafka's log and by ours.

Nobody can write such messages any more, but segments of a Kafka before 0.11 may lie in a directory.
Both sides are given the same files and must find the same in them.
"""

from __future__ import annotations

from contextlib import closing
from random import Random
from typing import TYPE_CHECKING

import pytest

from kaa.log.append import append_as_leader
from kaa.log.compaction import Compaction, CompactionRange
from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.dirs import LogDirectory
from kaa.log.files import RealFiles
from kaa.log.log import FetchIsolation, UnifiedLog
from kaa.log.names import LOG_SUFFIX, file_name
from kaa.log.recovery import LoadOptions, load_log
from kaa.model.topics import TopicPartition
from kaa.records.batch import CompressionType
from kaa.records.compaction import OffsetMap
from tests.unit.log.batches import batch
from tests.unit.log.logs import fetch_offset, run_jobs
from tests.unit.records.test_legacy import OLD_CODECS, message, wrapped

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle import Oracle
    from tests.oracle.log import JavaLog

pytestmark = pytest.mark.oracle

PARTITION = TopicPartition("topic", 0)
CONFIG = LogConfig(index_interval_bytes=200, cleanup_policy=frozenset({"compact"}))
KAFKA_CONFIG = {"index.interval.bytes": "200", "cleanup.policy": "compact"}
SEGMENTS = 3
MESSAGES_PER_SEGMENT = 20
# What a log says about the times of its records, and a few times in between.
TIMES = (-3, -2, -1, *range(0, 1_400, 25))


class OldLog:
    """Segments with everything that an old Kafka could leave, by base offset, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.end_offset = 0
        self._time = 0
        self.segments: dict[int, bytes] = {}
        for _ in range(SEGMENTS):
            base_offset = self.end_offset
            pieces = [self._next() for _ in range(MESSAGES_PER_SEGMENT)]
            self.segments[base_offset] = b"".join(pieces)

    def _next(self) -> bytes:
        random = self._random
        self._time += random.choice((0, 1, 20, -5))
        magic, codec = random.randrange(3), random.choice((CompressionType.NONE, *OLD_CODECS))
        if magic == 2:
            content = batch([self._pair()], base_offset=self.end_offset, timestamp=self._time)
            self.end_offset += 1
            return bytes(content)
        if codec is CompressionType.NONE:
            key, value = self._pair()
            self.end_offset += 1
            return message(magic, self.end_offset - 1, key, value, self._time)
        # Inside a wrapper, offsets count from its first message on since magic 1.
        count = random.randint(1, 3)
        first = 0 if magic == 1 else self.end_offset
        inner = b"".join(
            message(magic, first + number, *self._pair(), self._time) for number in range(count)
        )
        self.end_offset += count
        return wrapped(magic, codec, self.end_offset - 1, inner, timestamp=self._time)

    def _pair(self) -> tuple[bytes, bytes | None]:
        key = b"k%d" % self._random.randrange(6)
        return key, self._random.choice((None, b"v" * self._random.choice((1, 30, 200))))

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        for base_offset, content in self.segments.items():
            (folder / file_name(base_offset, LOG_SUFFIX)).write_bytes(content)


def load(root: Path) -> UnifiedLog:
    directory = LogDirectory(RealFiles(), str(root))
    options = LoadOptions(now_ms=0, manager=LogManagerConfig())
    loading = load_log(directory, str(root / "topic-0"), PARTITION, CONFIG, Random(1), options)
    while True:
        try:
            next(loading)
        except StopIteration as stop:
            log: UnifiedLog = stop.value
            directory.logs[PARTITION] = log
            log.update_high_watermark(log.log_end_offset)
            return log


def read(log: UnifiedLog, offset: int, bytes_max: int) -> bytes:
    region = log.read(offset, bytes_max=bytes_max, isolation=FetchIsolation.LOG_END).region
    if region is None:
        return b""
    try:
        return region.read()
    finally:
        region.release()


def whole(content: bytes) -> bytes:
    """Without the piece of a message that a read of Kafka's may end with."""
    end = 0
    while end + 12 <= len(content):
        length = int.from_bytes(content[end + 8 : end + 12], "big")
        if end + 12 + length > len(content):
            break
        end += 12 + length
    return content[:end]


def compare(ours: UnifiedLog, kafkas: JavaLog) -> None:
    state = kafkas.state()
    assert (ours.log_start_offset, ours.log_end_offset) == (
        state.log_start_offset,
        state.log_end_offset,
    )
    for offset in range(ours.log_end_offset):
        for bytes_max in (1, 500):
            assert read(ours, offset, bytes_max) == whole(kafkas.read(offset, bytes_max)[0])
    for timestamp in TIMES:
        found = fetch_offset(ours, timestamp)
        assert (
            None if found is None else (found.timestamp, found.offset)
        ) == kafkas.offset_by_timestamp(timestamp)


@pytest.mark.parametrize("seed", range(3))
def test_both_find_the_same(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    old = OldLog(seed)
    old.write(tmp_path / "ours" / "topic-0")
    old.write(tmp_path / "kafkas" / "topic-0")
    ours = load(tmp_path / "ours")
    with oracle.open_log(tmp_path / "kafkas" / "topic-0", KAFKA_CONFIG, clean=False) as kafkas:
        kafkas.set_high_watermark(old.end_offset)
        assert ours.log_end_offset == old.end_offset
        compare(ours, kafkas)
        new = batch([(b"k1", b"new")], timestamp=5_000)
        append_as_leader(ours, bytearray(new), leader_epoch=0, now_ms=0)
        kafkas.append(bytes(new), now=0)
        ours.update_high_watermark(old.end_offset + 1)
        kafkas.set_high_watermark(old.end_offset + 1)
        compare(ours, kafkas)
    ours.close()


@pytest.mark.parametrize("damage", ["torn", "flipped"])
def test_both_cut_at_the_same_message(oracle: Oracle, tmp_path: Path, damage: str) -> None:
    old = OldLog(7)
    last = max(old.segments)
    content = bytearray(old.segments[last])
    if damage == "torn":
        del content[-3:]
    else:
        content[len(content) // 2] ^= 1
    old.segments[last] = bytes(content)
    old.write(tmp_path / "ours" / "topic-0")
    old.write(tmp_path / "kafkas" / "topic-0")
    ours = load(tmp_path / "ours")
    with oracle.open_log(tmp_path / "kafkas" / "topic-0", KAFKA_CONFIG, clean=False) as kafkas:
        assert last < ours.log_end_offset < old.end_offset
        kafkas.set_high_watermark(ours.log_end_offset)
        compare(ours, kafkas)
    ours.close()


def test_compaction_keeps_the_same_records(oracle: Oracle, tmp_path: Path) -> None:
    """Ours come back in batches of today, Kafka's in those they were in."""
    old = OldLog(5)
    old.write(tmp_path / "ours" / "topic-0")
    old.write(tmp_path / "kafkas" / "topic-0")
    ours = load(tmp_path / "ours")
    clean_up_to = max(old.segments)
    with oracle.open_log(tmp_path / "kafkas" / "topic-0", KAFKA_CONFIG, clean=False) as kafkas:
        kafkas.set_high_watermark(old.end_offset)
        kafkas.clean(0, clean_up_to, now=0)
        compact(ours, clean_up_to)
    ours.close_cleanly(0)
    kept = records(oracle, tmp_path / "ours" / "topic-0")
    assert kept == records(oracle, tmp_path / "kafkas" / "topic-0")
    assert len(kept) < old.end_offset


def compact(log: UnifiedLog, end_offset: int) -> None:
    dirty = CompactionRange(0, end_offset)
    with closing(Compaction(log, dirty, OffsetMap(1 << 20, bytes(16)), 0).run()) as jobs:
        for job in jobs:
            run_jobs([job], 0)


def records(oracle: Oracle, folder: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    """What lies in the segments, by offset."""
    found = []
    for path in sorted(folder.glob(f"*{LOG_SUFFIX}")):
        read_back = oracle.read_records(path.read_bytes())
        assert read_back.error is None
        for each in read_back.batches:
            found += [(record.offset, record.key, record.value) for record in each.records]
    return found
