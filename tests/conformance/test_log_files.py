"""Our log and Kafka's, side by side: the same calls, the same answers, the same files.

Kafka's `UnifiedLog` and ours are driven with the same seeded sequence of operations; after each
the answers are compared, and at the end every file. Then either side opens what the other wrote,
after a clean stop and after a kill, and Kafka's own tool reads our files.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from kaa.log.append import AppendSource, append_as_leader
from kaa.log.cleaner import LogCleaner
from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.dirs import LogDirectory
from kaa.log.errors import LogError
from kaa.log.files import RealFiles
from kaa.log.log import FetchIsolation, UnifiedLog
from kaa.log.manager import LogManager
from kaa.log.producer_snapshots import decode_producer_snapshot
from kaa.log.recovery import LoadOptions, create_log, load_log
from kaa.log.retention import delete_old_segments
from kaa.log.truncation import truncate_to
from kaa.model.kinds import AppendOrigin
from kaa.model.topics import TopicPartition
from kaa.records.batch import iter_batches
from kaa.records.record import iter_records
from tests.oracle import JavaError
from tests.support.ids import uuid
from tests.unit.log.batches import ABORT, COMMIT, batch, marker
from tests.unit.log.logs import fetch_offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.records.batch import RecordBatch
    from tests.oracle import Oracle
    from tests.oracle.broker import RealKafka
    from tests.oracle.log import JavaLog

pytestmark = pytest.mark.oracle

PARTITION = TopicPartition("topic", 0)
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, retention_ms=3_000)
KAFKA_CONFIG = {
    "internal.segment.bytes": "1500",
    "index.interval.bytes": "200",
    "retention.ms": "3000",
}
ISOLATION = {
    FetchIsolation.LOG_END: "LOG_END",
    FetchIsolation.HIGH_WATERMARK: "HIGH_WATERMARK",
    FetchIsolation.TXN_COMMITTED: "TXN_COMMITTED",
}
MANAGER = LogManagerConfig(transaction_partition_verification_enable=False)


def _create(root: Path, config: LogConfig = CONFIG) -> UnifiedLog:
    root.mkdir(exist_ok=True)
    directory = LogDirectory(RealFiles(), str(root))
    options = LoadOptions(now_ms=0, manager=MANAGER)
    log = create_log(directory, PARTITION, None, config, Random(1), options)
    directory.logs[PARTITION] = log
    return log


def _load(root: Path, *, clean: bool, recovery_point: int = 0, start_offset: int = 0) -> UnifiedLog:
    directory = LogDirectory(RealFiles(), str(root))
    options = LoadOptions(
        now_ms=0,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=start_offset,
        manager=MANAGER,
    )
    loading = load_log(directory, str(root / "topic-0"), PARTITION, CONFIG, Random(1), options)
    while True:
        try:
            next(loading)
        except StopIteration as stop:
            log: UnifiedLog = stop.value
            directory.logs[PARTITION] = log
            return log


@dataclass
class Producer:
    """A made-up producer that mostly behaves."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0
    in_transaction: bool = False


class Pair:
    """Both logs. Every operation is done on both and must give the same."""

    def __init__(self, ours: UnifiedLog, kafkas: JavaLog, seed: int) -> None:
        self.ours = ours
        self.kafkas = kafkas
        self.random = Random(seed)
        self.now_ms = 0
        self.epoch = 0
        self.producers = [Producer(10 + n) for n in range(3)]
        self.timestamp = 1000

    def operations(self) -> dict[Callable[[], None], int]:
        """What may be done next, with how often."""
        return {
            self.write_plain: 6,
            self.write_idempotent: 10,
            self.write_transactional: 8,
            self.end_transaction: 4,
            self.write_wrongly: 3,
            self.read: 8,
            self.look_up: 3,
            self.move_high_watermark: 6,
            self.move_start: 1,
            self.roll: 1,
            self.truncate: 1,
            self.retain: 1,
        }

    def step(self) -> None:
        operations = self.operations()
        operation = self.random.choices(list(operations), list(operations.values()))[0]
        operation()
        self.compare()

    # --- operations

    def append(self, content: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> bool:
        """Whether the append was accepted, by both or by neither."""
        kafkas: tuple[int, int, int, int] | int
        ours: tuple[int, int, int, int] | int
        try:
            row = self.kafkas.append(
                bytes(content), leader_epoch=self.epoch, origin=origin.name, now=self.now_ms
            )
            offsets = row.first_offset, row.last_offset
            kafkas = (*offsets, row.log_append_time, row.log_start_offset)
        except JavaError as error:
            kafkas = error.code or 0
        try:
            info = append_as_leader(
                self.ours,
                content,
                leader_epoch=self.epoch,
                now_ms=self.now_ms,
                source=AppendSource(origin),
            )
            offsets = info.first_offset, info.last_offset
            ours = (*offsets, info.log_append_time_ms, info.log_start_offset)
        except LogError as error:
            ours = error.error
        assert ours == kafkas
        return isinstance(ours, tuple)

    def content(self, producer: Producer | None = None, **changes: int) -> bytearray:
        self.timestamp += self.random.choice((0, 1, 5, -3, 40))
        count = self.random.randint(1, 4)
        producer_id, epoch, sequence = -1, -1, -1
        transactional = False
        if producer is not None:
            producer_id, epoch, sequence = producer.producer_id, producer.epoch, producer.sequence
            transactional = producer.in_transaction
            producer.sequence += count
        return batch(
            self.records(count),
            producer_id=producer_id,
            producer_epoch=changes.get("epoch", epoch),
            sequence=changes.get("sequence", sequence),
            timestamp=self.timestamp,
            transactional=transactional,
            leader_epoch=-1,
        )

    def records(self, count: int) -> list[tuple[bytes | None, bytes | None]]:
        value = b"v" * self.random.choice((1, 20, 150))
        return [(b"k%d" % n, value) for n in range(count)]

    def write_plain(self) -> None:
        if self.random.random() < 0.1:
            self.epoch += 1
        self.append(self.content())

    def write_idempotent(self) -> None:
        producer = self.random.choice(self.producers)
        content = self.content(producer)
        self.append(bytearray(content))
        if self.random.random() < 0.3:
            self.append(bytearray(content))

    def write_transactional(self) -> None:
        producer = self.random.choice(self.producers)
        producer.in_transaction = True
        self.append(self.content(producer))

    def end_transaction(self) -> None:
        producer = self.random.choice(self.producers)
        kind = self.random.choice((ABORT, COMMIT))
        content = marker(kind, producer.producer_id, producer.epoch, timestamp=self.timestamp)
        if self.append(content, AppendOrigin.COORDINATOR):
            producer.in_transaction = False

    def write_wrongly(self) -> None:
        """A gap, an old epoch, a new epoch, or a plain batch inside a transaction."""
        producer = self.random.choice(self.producers)
        fault = self.random.choice(("gap", "old", "new", "plain"))
        before = producer.sequence
        if fault == "gap":
            self.append(self.content(producer, sequence=producer.sequence + 7))
            producer.sequence = before
        elif fault == "old" and producer.epoch > 0:
            self.append(self.content(producer, epoch=producer.epoch - 1))
            producer.sequence = before
        elif fault == "plain":
            transaction, producer.in_transaction = producer.in_transaction, False
            self.append(self.content(producer))
            producer.in_transaction = transaction
            if transaction:
                producer.sequence = before
        else:
            producer.epoch += 1
            producer.sequence = 0
            self.append(self.content(producer))

    def read(self) -> None:
        offset = self.random.randint(self.ours.log_start_offset, self.ours.log_end_offset)
        isolation = self.random.choice(list(ISOLATION))
        bytes_max = self.random.choice((1, 300, 900, 10_000))
        kafkas, aborted = self.kafkas.read(offset, bytes_max, isolation=ISOLATION[isolation])
        whole = sum(b.size_in_bytes for b in iter_batches(kafkas))
        result = self.ours.read(offset, bytes_max=bytes_max, isolation=isolation)
        ours = b""
        if result.region is not None:
            ours = result.region.read()
            result.region.release()
        assert ours == kafkas[:whole]
        if isolation is FetchIsolation.TXN_COMMITTED:
            assert result.aborted is not None
            found = [(a.producer_id, a.first_offset) for a in result.aborted]
            assert [entry for entry in aborted if entry in found] == found
            # Kafka may list transactions that start after what was read.
            end_offset = max((b.next_offset for b in iter_batches(ours)), default=offset)
            assert all(first >= end_offset for _, first in set(aborted) - set(found))
        else:
            assert result.aborted is None

    def look_up(self) -> None:
        timestamp = self.random.choice((-1, -2, -3, self.random.randint(900, self.timestamp + 50)))
        found = fetch_offset(self.ours, timestamp)
        ours = None if found is None else (found.timestamp, found.offset)
        kafkas = self.kafkas.offset_by_timestamp(timestamp)
        # Kafka stops at a segment that compaction has emptied: its file is younger than anything.
        if kafkas is not None or all(segment.size for segment in self.ours.segments):
            assert ours == kafkas

    def move_high_watermark(self) -> None:
        offset = self.random.choice((self.ours.log_end_offset, self.ours.high_watermark))
        boundaries = [b.next_offset for b in self.batches()]
        if boundaries and self.random.random() < 0.5:
            offset = max(self.ours.high_watermark, self.random.choice(boundaries))
        self.ours.update_high_watermark(offset)
        self.kafkas.set_high_watermark(offset)

    def move_start(self) -> None:
        if self.ours.high_watermark > self.ours.log_start_offset:
            offset = self.random.randint(self.ours.log_start_offset, self.ours.high_watermark)
            self.ours.increment_log_start_offset(offset)
            self.kafkas.set_start_offset(offset)
            self.retain()

    def roll(self) -> None:
        if self.ours.segments.active.size:
            self.ours.roll(self.now_ms)
            self.kafkas.roll(self.now_ms)

    def truncate(self) -> None:
        boundaries = [b.base_offset for b in self.batches()]
        offsets = [o for o in boundaries if o >= self.ours.high_watermark]
        # Kafka forgets decided transactions whose markers are above the high watermark but below
        # the cut, and lets readers of committed data see them; we do not.
        markers = self.ours.producer_state.unreplicated.values()
        offsets = [o for o in offsets if o <= min(markers, default=o)]
        if offsets:
            offset = self.random.choice(offsets)
            truncate_to(self.ours, offset, self.now_ms)
            self.kafkas.truncate(offset)
            # Kafka looks at the replayed transactions again when the high watermark is next set.
            self.kafkas.set_high_watermark(self.ours.high_watermark)
            self.epoch += 1
            for producer in self.producers:
                entry = self.ours.producer_state.producers.get(producer.producer_id)
                if entry is not None:
                    producer.epoch = entry.epoch
                    producer.sequence = entry.last_sequence + 1
                    producer.in_transaction = entry.transaction_first_offset >= 0

    def retain(self) -> None:
        self.now_ms += self.random.choice((0, 100, 900))
        delete_old_segments(self.ours, self.now_ms)
        self.kafkas.delete_old_segments(self.now_ms)

    def batches(self) -> list[RecordBatch]:
        found: list[RecordBatch] = []
        offset = self.ours.log_start_offset
        while offset < self.ours.log_end_offset:
            result = self.ours.read(offset, bytes_max=10**6, isolation=FetchIsolation.LOG_END)
            if result.region is None:
                break
            found += iter_batches(result.region.read())
            result.region.release()
            offset = found[-1].next_offset
        return found

    # --- comparison

    def compare(self) -> None:
        kafkas = self.kafkas.state()
        ours = self.ours
        assert ours.log_start_offset == kafkas.log_start_offset
        assert ours.log_end_offset == kafkas.log_end_offset
        assert ours.high_watermark == kafkas.high_watermark
        if ours.last_stable_offset != ours.log_start_offset:
            # If a transaction is open since before the start of the log, Kafka takes the start of
            # the batch there, which may lie below or, in a compacted log, above.
            assert ours.last_stable_offset == kafkas.last_stable_offset
        assert tuple(ours.segments.base_offsets) == kafkas.segments
        assert tuple(ours.leader_epochs.entries) == kafkas.epochs
        assert _our_producers(ours) == {
            row.producer_id: (
                row.producer_epoch,
                row.coordinator_epoch,
                row.last_timestamp,
                -1
                if row.current_transaction_first_offset is None
                else row.current_transaction_first_offset,
                row.batches,
            )
            for row in kafkas.producers
        }


class CompactedPair(Pair):
    """Both logs with few keys, tombstones, and rounds of compaction."""

    first_dirty_offset = 0

    def operations(self) -> dict[Callable[[], None], int]:
        more: dict[Callable[[], None], int] = {self.clean: 5, self.roll: 3}
        return super().operations() | more

    def records(self, count: int) -> list[tuple[bytes | None, bytes | None]]:
        return [
            (b"k%d" % self.random.randint(0, 9), self.random.choice((b"v", b"w" * 90, None)))
            for _ in range(count)
        ]

    def clean(self) -> None:
        self.now_ms += self.random.choice((0, 10, 60))
        log = self.ours
        cleaner = LogCleaner({PARTITION: log}, MANAGER, bytes(16))
        cleaner._first_dirty[PARTITION] = self.first_dirty_offset
        to_clean = cleaner.examine(log, self.now_ms)
        if to_clean.cleanable_bytes == 0:
            return
        with closing(cleaner.clean(to_clean, self.now_ms)) as steps:
            for job in steps:
                if job is not None:
                    job.run()
        assert not cleaner.uncleanable
        ours = cleaner.examine(log, self.now_ms).dirty.first_dirty_offset
        kafkas = self.kafkas.clean(*to_clean.dirty, now=self.now_ms)
        assert ours == kafkas
        self.first_dirty_offset = ours
        stored = b"".join(bytes(b.view) for b in self.batches())
        wanted = b""
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            piece, _ = self.kafkas.read(offset)
            if not piece:
                break
            wanted += piece
            offset = [b.next_offset for b in iter_batches(piece)][-1]
        assert stored == wanted


def _our_producers(log: UnifiedLog) -> dict[int, tuple[object, ...]]:
    return {
        entry.producer_id: (
            entry.epoch,
            entry.coordinator_epoch,
            entry.last_timestamp,
            entry.transaction_first_offset,
            tuple(
                (b.first_sequence, b.last_sequence, b.first_offset, b.last_offset)
                for b in entry.batches
            ),
        )
        for entry in log.producer_state.producers.values()
    }


def _contents(folder: Path) -> dict[str, object]:
    """Every file with what it holds. Snapshots list producers in any order; names say the rest."""
    found: dict[str, object] = {}
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        if path.name == "partition.metadata" or path.name.endswith(".deleted"):
            continue
        if path.name.endswith("index") and not content:
            # Kafka creates the indexes of a segment when it first needs them.
            continue
        if path.suffix == ".snapshot":
            entries = decode_producer_snapshot(path.name, content)
            found[path.name] = sorted(repr(entry) for entry in entries)
        else:
            found[path.name] = content
    return found


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "ours", tmp_path / "kafkas"


def _lived(
    oracle: Oracle,
    roots: tuple[Path, Path],
    seed: int,
    *,
    steps: int = 150,
    compacted: bool = False,
) -> Pair:
    roots[1].mkdir()
    if compacted:
        config = replace(CONFIG, cleanup_policy=frozenset({"compact"}), delete_retention_ms=100)
        kafka_config = KAFKA_CONFIG | {"cleanup.policy": "compact", "delete.retention.ms": "100"}
    else:
        config, kafka_config = CONFIG, KAFKA_CONFIG
    ours = _create(roots[0], config)
    kafkas = oracle.open_log(roots[1] / "topic-0", kafka_config)
    pair = (CompactedPair if compacted else Pair)(ours, kafkas, seed)
    for _ in range(steps):
        pair.step()
    return pair


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_calls_give_the_same_answers_and_files(
    oracle: Oracle, roots: tuple[Path, Path], seed: int, compacted: bool
) -> None:
    pair = _lived(oracle, roots, seed, compacted=compacted)
    pair.ours.close_cleanly(now_ms=pair.now_ms)
    pair.kafkas.close()
    assert _contents(roots[0] / "topic-0") == _contents(roots[1] / "topic-0")


def _same_log(ours: UnifiedLog, kafkas: JavaLog) -> None:
    """Both opened the same files; producers are compared by what survives a snapshot."""
    state = kafkas.state()
    assert ours.log_start_offset == state.log_start_offset
    assert ours.log_end_offset == state.log_end_offset
    assert tuple(ours.segments.base_offsets) == state.segments
    assert tuple(ours.leader_epochs.entries) == state.epochs
    assert set(ours.producer_state.producers) == {row.producer_id for row in state.producers}
    for row in state.producers:
        entry = ours.producer_state.producers[row.producer_id]
        assert entry.epoch == row.producer_epoch
        assert entry.last_sequence == (row.batches[-1][1] if row.batches else -1)
    aborted = ours.collect_aborted(ours.log_start_offset, ours.log_end_offset)
    ours.update_high_watermark(ours.log_end_offset)
    kafkas.set_high_watermark(ours.log_end_offset)
    offset = ours.log_start_offset
    while offset < ours.log_end_offset:
        wanted, _ = kafkas.read(offset)
        result = ours.read(offset, bytes_max=10**6)
        if result.region is None:
            assert not wanted
            break
        content = result.region.read()
        result.region.release()
        assert content == wanted
        offset = [b.next_offset for b in iter_batches(content)][-1]
    _, listed = kafkas.read(ours.log_start_offset, isolation="TXN_COMMITTED")
    assert set(listed) <= {(a.producer_id, a.first_offset) for a in aborted}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("writer", ["ours", "kafkas"])
def test_either_side_opens_the_files_of_the_other(
    oracle: Oracle, roots: tuple[Path, Path], tmp_path: Path, writer: str, clean: bool
) -> None:
    pair = _lived(oracle, roots, seed=11)
    start_offset = pair.ours.log_start_offset
    written = tmp_path / writer
    if clean:
        pair.ours.close_cleanly(now_ms=pair.now_ms)
        pair.kafkas.close()
    first, second = tmp_path / "first", tmp_path / "second"
    for copy in (first, second):
        # Of logs that are still open, as a kill leaves them: Kafka's indexes end in zeros then.
        shutil.copytree(written, copy)
    ours = _load(first, clean=clean, start_offset=start_offset)
    with oracle.open_log(
        second / "topic-0", KAFKA_CONFIG, clean=clean, start_offset=start_offset
    ) as kafkas:
        _same_log(ours, kafkas)
        assert ours.log_end_offset == pair.ours.log_end_offset


def test_kafkas_indexes_really_end_in_zeros_after_a_kill(oracle: Oracle, tmp_path: Path) -> None:
    with oracle.open_log(tmp_path / "topic-0", KAFKA_CONFIG) as kafkas:
        for n in range(5):
            kafkas.append(bytes(batch(2, timestamp=n, leader_epoch=-1, value_bytes=100)))
        index = (tmp_path / "topic-0" / "00000000000000000000.index").read_bytes()
    assert len(index) > 10**6
    assert any(index[:16])
    assert not any(index[-1000:])


def test_kafkas_tool_reads_our_files(oracle: Oracle, roots: tuple[Path, Path]) -> None:
    pair = _lived(oracle, roots, seed=12)
    records = sum(b.record_count for b in pair.batches())
    pair.ours.close_cleanly(now_ms=pair.now_ms)
    folder = roots[0] / "topic-0"
    seen = 0
    for path in sorted(folder.iterdir()):
        if path.suffix in {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}:
            options = ["--deep-iteration"] if path.suffix == ".log" else ["--index-sanity-check"]
            result = oracle.run_tool("DumpLogSegments", "--files", str(path), *options)
            assert result.code == 0, result.err
            text = result.out + result.err
            for complaint in ("mismatch", "Mismatch", "not found", "orrupt", "rror", "Exception"):
                assert complaint not in text, text
            if path.suffix == ".log":
                seen += text.count("| offset:")
                assert text.count("isvalid: true") == text.count("baseOffset:")
            elif path.suffix.endswith("index") and path.suffix != ".txnindex":
                assert "passed sanity check" in text or "is empty" in text
    assert seen >= records > 0


def test_kafkas_tool_verifies_our_indexes_against_our_log(
    oracle: Oracle, roots: tuple[Path, Path]
) -> None:
    pair = _lived(oracle, roots, seed=13)
    pair.ours.close_cleanly(now_ms=pair.now_ms)
    for path in sorted((roots[0] / "topic-0").glob("*.*index")):
        if path.suffix != ".txnindex":
            arguments = ("--files", str(path), "--verify-index-only")
            result = oracle.run_tool("DumpLogSegments", *arguments)
            assert result.code == 0
            assert "ismatch" not in result.out + result.err
            assert "orrupt" not in result.out + result.err


def test_small_files_are_read_by_kafkas_classes(oracle: Oracle, roots: tuple[Path, Path]) -> None:
    """The leader-epoch checkpoint is compared with the other files; this one has no twin there."""
    log = _create(roots[0])
    assert log.topic_id is None
    log.assign_topic_id(uuid(77))
    append_as_leader(log, batch(1), leader_epoch=3, now_ms=0)
    log.close_cleanly(now_ms=0)
    with oracle.open_log(roots[0] / "topic-0", KAFKA_CONFIG) as kafkas:
        assert kafkas.state().epochs == ((3, 0),)
    metadata = (roots[0] / "topic-0" / "partition.metadata").read_text()
    assert metadata == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAATQ"


def test_the_directory_of_a_killed_broker_is_loaded_whole(
    real_kafka: RealKafka, tmp_path: Path
) -> None:
    """Every compression, an aborted and a committed transaction, written by a real client."""
    topic = "killed-broker"
    wanted = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = _producer(real_kafka, {"compression.type": codec})
        for n in range(100):
            producer.produce(topic, f"{codec} {n}".encode() * 20, f"k{n}".encode(), partition=0)
            wanted.append(f"{codec} {n}".encode() * 20)
        producer.flush(30)
    transactional = _producer(real_kafka, {"transactional.id": topic})
    transactional.init_transactions(30)
    for value, end in (
        (b"aborted", transactional.abort_transaction),
        (b"committed", transactional.commit_transaction),
    ):
        transactional.begin_transaction()
        transactional.produce(topic, value, partition=0)
        transactional.flush(30)
        end(30)
        wanted.append(value)
    shutil.copytree(real_kafka.log_dir, tmp_path / "copy")
    manager = LogManager(
        RealFiles(), [str(tmp_path / "copy")], MANAGER, Random(1), lambda _: LogConfig()
    )
    manager.lock()
    for _ in manager.start(now_ms=0):
        pass
    assert manager.clean_broker_epochs == {str(tmp_path / "copy"): None}
    log = manager.logs[TopicPartition(topic, 0)]
    assert log.topic_id is not None
    log.update_high_watermark(log.log_end_offset)
    found: list[bytes | None] = []
    offset = 0
    while offset < log.log_end_offset:
        region = log.read(offset, bytes_max=10**6).region
        assert region is not None
        for stored in iter_batches(region.read()):
            offset = stored.next_offset
            assert stored.is_valid_crc()
            if not stored.is_control:
                found += [record.value for record in iter_records(stored)]
        region.release()
    assert found == wanted
    assert len(log.collect_aborted(0, log.log_end_offset)) == 1
    # The marker of the commit follows its answer, and may not have been written yet.
    assert (log.last_stable_offset, log.log_end_offset) in {(502, 503), (504, 504)}
    manager.abandon()


def _producer(real_kafka: RealKafka, options: dict[str, str]) -> Any:
    """librdkafka's; it ships no types."""
    common = {
        "bootstrap.servers": real_kafka.bootstrap_servers,
        "linger.ms": 5,
        "log_level": 0,
    }
    return confluent_kafka.Producer(common | options)
