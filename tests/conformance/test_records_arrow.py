"""Arrow columns and partitions beside Java: what it builds, reads, hashes and consumes."""

from __future__ import annotations

from array import array
from random import Random
from struct import Struct
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kaa.records import CompressionType, RecordsError
from kaa.records.arrow import ColumnReader
from kaa.records.arrow_encode import encode
from kaa.records.arrow_pyarrow import record_batch, row_columns
from kaa.records.partitioner import murmur2, partition_of_key
from tests.oracle import NewBatch, NewRecord
from tests.unit.records.arrow_twins import KERNELS, Kernel, use

if TYPE_CHECKING:
    from tests.oracle import Batch, Oracle, Record
    from tests.oracle.broker import RealKafka

# One worker for all: the topic of these tests can be created once.
pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("records-arrow")]

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
CODECS = {
    "none": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name, autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    chosen: Kernel = request.param
    use(chosen, monkeypatch)
    return chosen


def new_records(random: Random, count: int, *, has_headers: bool) -> tuple[NewRecord, ...]:
    def text(size_max: int) -> bytes | None:
        size = random.randrange(size_max)
        return None if random.random() < 0.2 else (random.randbytes(3) * size)[:size]

    names = ("", "trace", "naïve", "\U0001f40d")
    return tuple(
        NewRecord(
            key=text(20),
            value=text(300),
            timestamp=random.randrange(2**41),
            headers=tuple(
                (random.choice(names), text(9))
                for _ in range(random.randrange(4) if has_headers else 0)
            ),
        )
        for _ in range(count)
    )


def java_row(record: Record) -> Row:
    return record.offset, record.timestamp, record.key, record.value, record.headers


def java_rows(batches: tuple[Batch, ...]) -> list[Row]:
    return [java_row(record) for batch in batches if not batch.control for record in batch.records]


def our_rows(data: bytes, **options: object) -> tuple[list[Row], bool]:
    """The rows, and whether an error ended them."""
    reader = ColumnReader(data, partition=0, **options)  # type: ignore[arg-type]
    rows: list[Row] = []
    try:
        while not reader.is_exhausted:
            for row in record_batch(reader.read(rows_max=7)).to_pylist():
                headers = tuple((entry["key"], entry["value"]) for entry in row["headers"] or ())
                timestamp = round(row["timestamp"].timestamp() * 1_000)
                rows.append((row["offset"], timestamp, row["key"], row["value"], headers))
    except RecordsError:
        return rows, True
    return rows, False


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_java_read_as_java_reads_them(oracle: Oracle, codec: str) -> None:
    random = Random(codec)
    data = b""
    offset = 0
    for number in range(12):
        records = new_records(random, 1 + random.randrange(30), has_headers=True)
        is_append_time = number % 3 == 0
        data += oracle.build_batch(
            NewBatch(
                records,
                compression=codec,
                base_offset=offset,
                timestamp_type="LOG_APPEND_TIME" if is_append_time else "CREATE_TIME",
                log_append_time=10**12 + number if is_append_time else -1,
            )
        )
        offset += len(records)
    expected = java_rows(oracle.read_records(data).batches)
    assert len(expected) == offset
    assert our_rows(data) == (expected, False)


@pytest.mark.parametrize(("magic", "codec"), [(0, "none"), (0, "gzip"), (1, "none"), (1, "lz4")])
def test_old_magic_reads_as_java_reads_it(oracle: Oracle, magic: int, codec: str) -> None:
    records = new_records(Random(magic), 9, has_headers=False)
    data = oracle.build_batch(NewBatch(records, magic=magic, compression=codec, base_offset=40))
    assert our_rows(data) == (java_rows(oracle.read_records(data).batches), False)


def test_changed_records_are_refused_where_java_refuses_them(oracle: Oracle) -> None:
    random = Random(11)
    good = oracle.build_batch(NewBatch(new_records(random, 5, has_headers=True)))
    changed = []
    for _ in range(400):
        copy = bytearray(good)
        for _ in range(random.randrange(1, 3)):
            copy[random.randrange(61, len(copy))] = random.randrange(256)
        changed.append(bytes(copy))
    for data, read in zip(changed, oracle.read_many_records(changed), strict=True):
        [batch] = read.batches
        expected: list[Row] = []
        for row in java_rows(read.batches):
            # A consumer passes over offsets it has seen, and cannot have dates after 9999.
            if row[0] >= (expected[-1][0] + 1 if expected else 0):
                expected.append(row)
        if all(0 <= row[1] < 2**47 for row in expected):
            assert our_rows(data, check_crcs=False) == (expected, batch.error is not None)


@pytest.mark.parametrize("codec", CODECS)
def test_encoded_rows_are_read_by_java(oracle: Oracle, codec: str) -> None:
    random = Random(codec)
    records = new_records(random, 500, has_headers=True)
    headers_type = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = [
        [{"key": key, "value": value} for key, value in record.headers] or None
        for record in records
    ]
    batch = pa.record_batch(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
            "headers": pa.array(headers, headers_type),
        }
    )
    encoded = encode(row_columns(batch), 0, batch_bytes_max=10_000, compression_type=CODECS[codec])
    assert len(encoded.batches) > 1
    seen = []
    for piece in encoded.batches:
        [read] = oracle.read_records(bytes(piece.data)).batches
        assert read.valid
        assert read.error is None
        assert read.compression == codec
        seen += [
            (record.key, record.value, record.timestamp, record.headers) for record in read.records
        ]
    assert seen == [
        (record.key, record.value, record.timestamp, record.headers) for record in records
    ]


def test_keys_hash_and_go_to_partitions_as_in_java(oracle: Oracle) -> None:
    random = Random(3)
    keys = [random.randbytes(size) for size in range(200)] + [b"", b"\0", b"key"]
    assert [murmur2(key) for key in keys] == oracle.murmur2(keys)
    for count in (1, 2, 7, 100, 2**31 - 1):
        assert [partition_of_key(key, count) for key in keys] == oracle.partitions(keys, count)


# --- transactions, in the log of a real broker

# Of each aborted transaction: version, producer id, first and last offset, last stable offset.
_ABORTED = Struct(">hqqqq")


def test_a_log_with_transactions_reads_as_a_consumer_reads_it(real_kafka: RealKafka) -> None:
    topic = "records-arrow-transactions"
    _write_transactions(real_kafka.bootstrap_servers, topic, Random(5))
    folder = real_kafka.log_dir / f"{topic}-0"
    data = (folder / "00000000000000000000.log").read_bytes()
    index = (folder / "00000000000000000000.txnindex").read_bytes()
    aborted = [(entry[1], entry[2]) for entry in _ABORTED.iter_unpack(index)]
    assert len(aborted) > 3
    consumed = _consume(real_kafka.bootstrap_servers, topic, "read_committed")
    everything = _consume(real_kafka.bootstrap_servers, topic, "read_uncommitted")
    assert len(consumed) < len(everything)
    for expected, named in ((consumed, aborted), (everything, [])):
        rows, is_error = our_rows(data, aborted=named)
        assert not is_error
        assert [(offset, value) for offset, _, _, value, _ in rows] == expected


def _write_transactions(servers: str, topic: str, random: Random) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    if topic in admin.list_topics(timeout=30).topics:
        return
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(30)
    producers = [
        Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-{number}"})
        for number in range(3)
    ]
    for producer in producers:
        producer.init_transactions(30)
    plain = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for turn in range(8):
        for producer in producers:
            producer.begin_transaction()
        for number in range(12):
            writer = random.choice([*producers, plain])
            writer.produce(topic, value=b"%d-%d" % (turn, number), partition=0)
            writer.flush(30)
        for producer in random.sample(producers, 3):
            if random.random() < 0.5:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
    # A transaction is decided before its markers are written; who takes over an id waits for them.
    for number in range(3):
        heir = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-{number}"})
        heir.init_transactions(30)


def _consume(servers: str, topic: str, isolation_level: str) -> list[tuple[int, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows: list[tuple[int, bytes | None]] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, "the broker does not answer"
            if message.error() is not None:
                return rows
            rows.append((message.offset() or 0, message.value()))
    finally:
        consumer.close()


def test_order_of_rows_is_that_of_the_partition_column(oracle: Oracle) -> None:
    keys = [b"key-%d" % number for number in range(100)]
    partitions = oracle.partitions(keys, 7)
    batch = pa.record_batch({"key": keys, "value": keys, "partition": partitions})
    encoded = encode(row_columns(batch), 0, batch_bytes_max=500, partition_count=7)
    order = array("i", bytes(encoded.order or b""))
    for piece in encoded.batches:
        [read] = oracle.read_records(bytes(piece.data)).batches
        rows = order[piece.first_row : piece.first_row + piece.row_count]
        assert [record.key for record in read.records] == [keys[row] for row in rows]
        assert {partitions[row] for row in rows} == {piece.partition}
