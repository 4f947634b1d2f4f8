"""Record batches against Kafka's own classes: built, read and judged alike, also when damaged.

Uncompressed batches are equal byte for byte. Compressed ones are equal once expanded, since the
libraries of the codecs differ in version. Verdicts are equal in error code and in the records
that are named; what is accepted is equal in every byte that is appended.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kaa.model.kinds import AppendOrigin
from kaa.records import (
    AppendableExtent,
    AppendRules,
    BatchBuilder,
    CompressionType,
    ControlRecordType,
    EndTransactionMarker,
    LegacyBatch,
    RecordBatch,
    RecordsError,
    Refusal,
    TimestampType,
    analyze_replicated,
    build_end_transaction_batch,
    compress,
    decompress_all,
    encode_record,
    iter_any_batches,
    iter_legacy_records,
    iter_records,
    parse_produced,
    read_end_transaction_marker,
    validate_batch,
    validate_produced,
)
from kaa.records import Validated as OurValidated
from kaa.records.varint import encode_varint
from tests.oracle.client import Oracle
from tests.oracle.model import (
    Batch,
    JavaError,
    NewBatch,
    NewMarker,
    NewRecord,
    Produced,
    Validated,
)
from tests.unit.records.samples import (
    CODECS,
    NOW_MS,
    SCANNERS,
    damaged,
    random_batch,
    random_bytes,
    simple_batch,
    validate_by,
    with_records,
)

pytestmark = pytest.mark.oracle

LEADER_EPOCH = 7
FIRST_OFFSET = 500


@pytest.fixture(params=SCANNERS)
def _each_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    validate_by(request.param, monkeypatch)


each_kernel = pytest.mark.usefixtures("_each_kernel")


def name_of(codec: CompressionType) -> str:
    return codec.name.lower()


def same_content(ours: RecordBatch, theirs: RecordBatch) -> bool:
    """All header fields and the expanded records; of uncompressed batches every byte."""
    if not ours.is_compressed:
        return ours.view == theirs.view
    fields = (
        "base_offset",
        "partition_leader_epoch",
        "attributes",
        "last_offset_delta",
        "base_timestamp",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "record_count",
    )
    return (
        ours.is_valid_crc()
        and all(getattr(ours, name) == getattr(theirs, name) for name in fields)
        and decompress_all(ours.compression_type, ours.payload)
        == decompress_all(theirs.compression_type, theirs.payload)
    )


# --- building


def drawn_batch(rng: random.Random) -> tuple[NewBatch, bytearray]:
    """One batch as a question to Java, and as our builder writes it."""
    codec = rng.choice(CODECS)
    is_append_time = rng.random() < 0.2
    delete_horizon_ms = NOW_MS if rng.random() < 0.2 else None
    producer = (rng.randrange(1 << 50), rng.randrange(1 << 15), rng.randrange(1 << 31))
    producer_id, producer_epoch, base_sequence = rng.choice((producer, (-1, -1, -1)))
    is_transactional = producer_id >= 0 and rng.random() < 0.5
    base_offset = rng.choice((0, 5, 1 << 40))
    epoch = rng.choice((-1, 0, 99))
    records = []
    offset = base_offset
    for _ in range(rng.choice((1, 2, 5, 60))):
        offset += rng.choice((0, 0, 0, 3))
        timestamp = rng.choice((-1, 0, NOW_MS, NOW_MS + rng.randrange(100), 2**62))
        key, value = (rng.choice((None, b"", random_bytes(rng, 400))) for _ in range(2))
        headers = tuple(
            (rng.choice(("", "header", "häder", "日本")), rng.choice((None, b"", b"x" * 70)))
            for _ in range(rng.choice((0, 0, 1, 3)))
        )
        records.append(NewRecord(key, value, timestamp, headers, offset))
        offset += 1
    builder = BatchBuilder(
        compression_type=codec,
        timestamp_type=TimestampType(is_append_time),
        append_time_ms=NOW_MS if is_append_time else -1,
        base_offset=base_offset,
        partition_leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        delete_horizon_ms=delete_horizon_ms,
    )
    for record in records:
        builder.append(
            record.timestamp, record.key, record.value, record.headers, offset=record.offset
        )
    question = NewBatch(
        records=tuple(records),
        compression=name_of(codec),
        timestamp_type="LOG_APPEND_TIME" if is_append_time else "CREATE_TIME",
        log_append_time=NOW_MS if is_append_time else -1,
        base_offset=base_offset,
        partition_leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=is_transactional,
        delete_horizon_ms=-1 if delete_horizon_ms is None else delete_horizon_ms,
    )
    return question, builder.build()


def test_built_batches_are_equal(oracle: Oracle) -> None:
    rng = random.Random(1)
    pairs = [drawn_batch(rng) for _ in range(600)]
    answers = oracle.build_batches([question for question, _ in pairs])
    for (question, ours), theirs in zip(pairs, answers, strict=True):
        assert not isinstance(theirs, JavaError), (question, theirs)
        assert same_content(RecordBatch(ours), RecordBatch(theirs)), question


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (CompressionType.GZIP, (-1, 1, 9)),
        # Levels 1 and 2 mean another algorithm in the newer library that Java has.
        (CompressionType.LZ4, (3, 9, 17)),
        (CompressionType.ZSTD, (-7, 1, 10)),
    ],
)
def test_levels(codec: CompressionType, levels: tuple[int, ...], oracle: Oracle) -> None:
    records = tuple(NewRecord(None, b"value %d " % i * 20, NOW_MS) for i in range(2000))
    for level in levels:
        theirs = oracle.build_batch(
            NewBatch(records=records, compression=name_of(codec), level=level)
        )
        builder = BatchBuilder(compression_type=codec, compression_level=level)
        for record in records:
            builder.append(record.timestamp, record.key, record.value)
        ours = builder.build()
        assert same_content(RecordBatch(ours), RecordBatch(theirs))
        # Levels mean the same: the sizes are those of the same algorithm.
        assert abs(len(ours) - len(theirs)) < len(theirs) * 0.1


@pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_markers_are_equal(kind: ControlRecordType, oracle: Oracle) -> None:
    theirs = oracle.build_batch(NewMarker(kind.name, 12, 3, 44, 900, NOW_MS, 5))
    marker = EndTransactionMarker(kind, 44)
    ours = build_end_transaction_batch(
        marker,
        producer_id=12,
        producer_epoch=3,
        timestamp=NOW_MS,
        base_offset=900,
        partition_leader_epoch=5,
    )
    assert ours == theirs
    assert read_end_transaction_marker(RecordBatch(theirs)) == marker


# --- reading


def assert_read_alike(data: bytes, theirs: Batch) -> None:
    """A batch that Java can frame: the same fields, then the same records or an error in both."""
    ours = RecordBatch(data)
    is_append_time = theirs.timestamp_type == "LOG_APPEND_TIME"
    assert (ours.base_offset, ours.size_in_bytes) == (theirs.base_offset, theirs.size_in_bytes)
    assert (ours.timestamp_type is TimestampType.LOG_APPEND_TIME) == is_append_time
    assert (ours.max_timestamp, ours.base_timestamp) == (
        theirs.max_timestamp,
        theirs.base_timestamp,
    )
    assert (ours.producer_id, ours.producer_epoch) == (theirs.producer_id, theirs.producer_epoch)
    assert ours.base_sequence == theirs.base_sequence
    assert (ours.is_transactional, ours.is_control) == (theirs.transactional, theirs.control)
    assert (ours.crc, ours.is_valid_crc()) == (theirs.checksum, theirs.valid)
    assert ours.partition_leader_epoch == theirs.partition_leader_epoch
    assert ours.delete_horizon_ms == theirs.delete_horizon_ms
    assert ours.record_count == theirs.count
    if ours.last_offset_delta >= 0:
        assert (ours.last_offset, ours.next_offset) == (theirs.last_offset, theirs.next_offset)
        assert ours.last_sequence == theirs.last_sequence
    try:
        records = [tuple(record)[:5] for record in iter_records(ours)]
    except RecordsError:
        assert theirs.error is not None
    else:
        assert theirs.error is None, theirs.error
        assert records == [
            (r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs.records
        ]


def test_java_reads_our_batches(oracle: Oracle) -> None:
    rng = random.Random(2)
    ours = [bytes(drawn_batch(rng)[1]) for _ in range(400)]
    for data, read in zip(ours, oracle.read_many_records(ours), strict=True):
        (batch,) = read.batches
        assert batch.error is None
        assert_read_alike(data, batch)


def test_damaged_batches_are_read_alike(oracle: Oracle) -> None:
    rng = random.Random(3)
    cases: list[bytes] = []
    while len(cases) < 1000:
        data = bytes(damaged(random_batch(rng), rng))
        try:
            batch = RecordBatch(data)
        except RecordsError:
            continue
        # Java reserves room for as many records as are declared, which may be more than it has;
        # and asked for a control batch, it parses the keys as well.
        is_plain = batch.attributes & 7 <= CompressionType.ZSTD and not batch.is_control
        if is_plain and batch.record_count < 100_000:
            cases.append(bytes(batch.view))
    failures = 0
    for data in cases:
        try:
            (theirs,) = oracle.read_records(data).batches
        except JavaError:
            # An Error that is no Exception, such as those of the snappy library.
            with pytest.raises(RecordsError):
                list(iter_records(RecordBatch(data)))
            failures += 1
        else:
            assert_read_alike(data, theirs)
            failures += theirs.error is not None
    assert 200 < failures < 900


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS[:4])
@pytest.mark.parametrize("timestamp_type", ["CREATE_TIME", "LOG_APPEND_TIME"])
def test_old_magics_are_read_alike(
    magic: int, codec: CompressionType, timestamp_type: str, oracle: Oracle
) -> None:
    records = tuple(
        NewRecord(b"k" if i % 2 else None, b"v" * i if i % 3 else None, NOW_MS + i, (), 70 + 2 * i)
        for i in range(8)
    )
    data = oracle.build_batch(
        NewBatch(
            records=records,
            magic=magic,
            compression=name_of(codec),
            timestamp_type=timestamp_type,
            log_append_time=NOW_MS + 99,
            base_offset=70,
        )
    )
    read = oracle.read_records(data)
    batches = list(iter_any_batches(data))
    assert len(batches) == len(read.batches) == (8 if codec is CompressionType.NONE else 1)
    for ours, theirs in zip(batches, read.batches, strict=True):
        assert isinstance(ours, LegacyBatch)
        assert ours.is_valid_crc()
        assert (ours.base_offset, ours.last_offset) == (theirs.base_offset, theirs.last_offset)
        assert (ours.magic, ours.max_timestamp) == (theirs.magic, theirs.max_timestamp)
        assert [record[:4] for record in iter_legacy_records(ours)] == [
            (r.offset, r.timestamp, r.key, r.value) for r in theirs.records
        ]


# --- verdicts


def drawn_rules(rng: random.Random) -> AppendRules:
    return AppendRules(
        message_bytes_max=rng.choice((300, 1 << 20, 1 << 20, 1 << 20)),
        compression_type=rng.choice((None, None, None, *CODECS)),
        timestamp_type=rng.choice((TimestampType.CREATE_TIME,) * 3 + tuple(TimestampType)),
        timestamp_before_max_ms=rng.choice((500, 2**63 - 1)),
        is_compacted=rng.random() < 0.3,
    )


def question_of(records: bytearray, rules: AppendRules, version: int) -> Produced:
    target = rules.compression_type
    return Produced(
        bytes(records),
        now=NOW_MS,
        first_offset=FIRST_OFFSET,
        compression="producer" if target is None else name_of(target),
        compacted=rules.is_compacted,
        timestamp_type=rules.timestamp_type.name,
        timestamp_before_max_ms=rules.timestamp_before_max_ms,
        timestamp_after_max_ms=rules.timestamp_after_max_ms,
        partition_leader_epoch=LEADER_EPOCH,
        produce_version=version,
    )


def assert_same_refusal(ours: OurValidated | Refusal, theirs: JavaError) -> None:
    assert isinstance(ours, Refusal), theirs
    assert ours.error == theirs.code, (ours, theirs)
    ours_named = [error.batch_index for error in ours.record_errors]
    assert ours_named == [index for index, _ in theirs.record_errors]


@each_kernel
def test_verdicts_of_the_produce_request_and_of_the_validator(oracle: Oracle) -> None:
    """This way to ask Java skips the checks of base offset and size; the next test has them."""
    rng = random.Random(4)
    cases: list[tuple[bytearray, AppendRules, int]] = []
    while len(cases) < 3000:
        records = random_batch(rng)
        if rng.random() < 0.8:
            records = damaged(records, rng)
        rules = drawn_rules(rng)._replace(message_bytes_max=2**31 - 1)
        batch = parse_produced(records, 12)
        is_short = isinstance(batch, Refusal) and len(records) >= 26 and "header" in batch.reason
        if is_short or (isinstance(batch, RecordBatch) and batch.base_offset):
            continue
        cases.append((records, rules, rng.choice((3, 6, 7, 13))))
    answers = oracle.validate_many([question_of(*case) for case in cases])
    codes = set()
    for (records, rules, version), theirs in zip(cases, answers, strict=True):
        ours = validate_produced(records, version, rules, NOW_MS)
        if isinstance(theirs, JavaError):
            codes.add(theirs.code)
            assert_same_refusal(ours, theirs)
        else:
            codes.add(0)
            assert isinstance(ours, OurValidated), (ours, theirs)
            assert_same_acceptance(ours, theirs, rules)
    assert codes == {-1, 0, 2, 32, 76, 87}


def assert_same_acceptance(ours: OurValidated, theirs: Validated, rules: AppendRules) -> None:
    batch = ours.assign(FIRST_OFFSET, LEADER_EPOCH)
    assert same_content(batch, RecordBatch(theirs.data))
    if not ours.is_rewritten:
        assert batch.view == theirs.data[: batch.size_in_bytes]
    assert theirs.next_offset == FIRST_OFFSET + ours.record_count
    assert theirs.max_timestamp_ms == ours.max_timestamp
    assert theirs.message_size_maybe_changed == ours.is_rewritten
    assert theirs.records_converted == (ours.record_count if ours.is_rewritten else 0)
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        assert theirs.log_append_time_ms == ours.append_time_ms


LOG_CONFIGS: dict[str, tuple[dict[str, str], AppendRules]] = {
    "defaults": ({}, AppendRules(message_bytes_max=1048588)),
    "small": ({"max.message.bytes": "300"}, AppendRules(message_bytes_max=300)),
    "compacted": (
        {"cleanup.policy": "compact", "message.timestamp.before.max.ms": "500"},
        AppendRules(1048588, timestamp_before_max_ms=500, is_compacted=True),
    ),
    "append time": (
        {"message.timestamp.type": "LogAppendTime"},
        AppendRules(1048588, timestamp_type=TimestampType.LOG_APPEND_TIME),
    ),
    "gzip, small": (
        {"compression.type": "gzip", "max.message.bytes": "300"},
        AppendRules(300, compression_type=CompressionType.GZIP),
    ),
    "uncompressed": (
        {"compression.type": "uncompressed"},
        AppendRules(1048588, compression_type=CompressionType.NONE),
    ),
}


@each_kernel
@pytest.mark.parametrize(("config", "rules"), LOG_CONFIGS.values(), ids=LOG_CONFIGS.keys())
def test_verdicts_of_the_log(
    config: dict[str, str], rules: AppendRules, oracle: Oracle, tmp_path: Path
) -> None:
    """The whole way of a leader's append, on a log of Kafka's, producer state included."""
    rng = random.Random(5)
    codes = set()
    with oracle.open_log(tmp_path / "topic-0", config, now=NOW_MS) as log:
        for _ in range(250):
            records = random_batch(rng)
            if rng.random() < 0.8:
                records = damaged(records, rng)
            ours = validate_produced(records, 13, rules, NOW_MS)
            if isinstance(parse_produced(records, 13), Refusal) and len(records) > 26:
                continue
            start = log.state().log_end_offset
            try:
                theirs = log.append(bytes(records), leader_epoch=LEADER_EPOCH, now=NOW_MS)
            except JavaError as error:
                if error.simple_name.startswith(("OutOfOrderSequence", "InvalidProducerEpoch")):
                    continue
                codes.add(error.code)
                assert_same_refusal(ours, error)
                continue
            codes.add(0)
            assert isinstance(ours, OurValidated), ours
            batch = ours.assign(start, LEADER_EPOCH)
            assert (theirs.first_offset, theirs.last_offset) == (start, batch.last_offset)
            assert theirs.max_timestamp == ours.max_timestamp
            assert theirs.log_append_time == ours.append_time_ms
            appended, _ = log.read(start)
            assert same_content(batch, RecordBatch(appended))
    assert {0, 2, 87} <= codes


@each_kernel
@pytest.mark.parametrize("codec", CODECS)
def test_the_shortest_and_the_strangest_frames(
    codec: CompressionType, oracle: Oracle, tmp_path: Path
) -> None:
    batch = simple_batch(1, codec)
    cases = []
    for size in range(26, 62):
        short = batch[:size]
        short[8:12] = (size - 12).to_bytes(4, "big")
        cases.append(short)
    strange = (b"", b"\xff" * 30, encode_record(5, 0, b"k", b"v"), encode_varint(-3) * 20)
    cases += [with_records(batch, records) for records in strange]
    rules = AppendRules(message_bytes_max=1048588)
    with oracle.open_log(tmp_path / "topic-0", now=NOW_MS) as log:
        for data in cases:
            ours = validate_produced(data, 13, rules, NOW_MS)
            try:
                log.append(bytes(data), leader_epoch=LEADER_EPOCH, now=NOW_MS)
            except JavaError as error:
                assert_same_refusal(ours, error)
            else:
                assert isinstance(ours, OurValidated)


@each_kernel
def test_header_keys_that_are_no_utf8_are_rewritten_alike(oracle: Oracle) -> None:
    """What Java decodes and encodes again when it changes the codec."""
    keys = (b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xc0\x80z", b"\xf4\x90\x80\x80")
    for key in keys:
        field = encode_varint(len(key)) + key
        body = b"\0\0\0\1\1\2" + field + b"\1"
        records = with_records(simple_batch(1), encode_varint(len(body)) + body)
        rules = AppendRules(1 << 20, compression_type=CompressionType.GZIP)
        theirs = oracle.validate(question_of(records, rules, 12))
        ours = validate_produced(records, 12, rules, NOW_MS)
        assert isinstance(ours, OurValidated)
        assert_same_acceptance(ours, theirs, rules)


@each_kernel
def test_verdicts_for_coordinators(oracle: Oracle) -> None:
    rng = random.Random(6)
    marker = NewMarker("COMMIT", 5, 0, 1, 0, NOW_MS)
    cases = [bytearray(oracle.build_batch(marker))]
    while len(cases) < 300:
        batch = random_batch(rng)
        if rng.random() < 0.5:
            batch[rng.choice((23, 24, 25, 26, *range(43, 61)))] ^= 1 << rng.randrange(8)
            batch = with_records(batch, decompress_all(*codec_and_payload(batch)))
        cases.append(batch)
    rules = AppendRules(1 << 20)
    questions = [
        Produced(
            bytes(records),
            now=NOW_MS,
            first_offset=FIRST_OFFSET,
            partition_leader_epoch=LEADER_EPOCH,
            timestamp_after_max_ms=rules.timestamp_after_max_ms,
            origin="COORDINATOR",
        )
        for records in cases
    ]
    for records, theirs in zip(cases, oracle.validate_many(questions), strict=True):
        ours = validate_batch(RecordBatch(records), rules, NOW_MS, AppendOrigin.COORDINATOR)
        if isinstance(theirs, JavaError):
            assert_same_refusal(ours, theirs)
        else:
            assert isinstance(ours, OurValidated), ours
            assert ours.assign(FIRST_OFFSET, LEADER_EPOCH).view == theirs.data


def codec_and_payload(batch: bytearray) -> tuple[CompressionType, memoryview]:
    view = RecordBatch(batch)
    return view.compression_type, view.payload


def test_followers_learn_the_same(oracle: Oracle, tmp_path: Path) -> None:
    rng = random.Random(7)
    with oracle.open_log(tmp_path / "topic-0", now=NOW_MS) as log:
        for _ in range(60):
            offset = log.state().log_end_offset
            data = bytearray()
            for _ in range(rng.choice((1, 2, 4))):
                builder = BatchBuilder(
                    compression_type=rng.choice(CODECS),
                    base_offset=offset,
                    partition_leader_epoch=rng.choice((1, 2, 2, 3)),
                )
                for _ in range(rng.choice((1, 3))):
                    builder.append(NOW_MS + rng.randrange(50), None, random_bytes(rng, 50))
                data += builder.build()
                offset = builder.last_offset + 1
            data += random_bytes(rng, 40)[: rng.choice((0, 11))]
            if rng.random() < 0.2:
                data[rng.randrange(21, len(data) - 40)] ^= 4
            try:
                theirs = log.append(bytes(data), leader_epoch=2, follower=True)
            except JavaError:
                with pytest.raises(RecordsError):
                    analyze_replicated(data, 2)
                continue
            ours = analyze_replicated(data, 2)
            assert ours.valid_bytes == theirs.valid_bytes
            if ours != AppendableExtent():
                assert (ours.first_offset, ours.last_offset, ours.max_timestamp) == (
                    theirs.first_offset,
                    theirs.last_offset,
                    theirs.max_timestamp,
                )
                assert ours.last_leader_epoch == theirs.last_leader_epoch


@pytest.mark.parametrize("codec", CODECS[1:])
def test_streams_behind_each_other_are_read_alike(codec: CompressionType, oracle: Oracle) -> None:
    """Two compressed streams in one batch: what one library joins, the other must join too."""
    first, second = encode_record(0, 0, None, b"one"), encode_record(1, 0, None, b"two")
    data = simple_batch(2, codec)
    data = data[:61] + compress(codec, first) + compress(codec, second)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    (theirs,) = oracle.read_records(bytes(data)).batches
    try:
        ours = [record.value for record in iter_records(RecordBatch(data))]
    except RecordsError:
        assert theirs.error is not None
    else:
        assert ours == [record.value for record in theirs.records]
        assert theirs.error is None
