"""The oracle's partition logs: Kafka's log layer writes, reads, compacts and recovers a folder."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.oracle import JavaError, NewBatch, NewMarker, NewRecord, Oracle

pytestmark = pytest.mark.oracle

PLAIN = NewBatch((NewRecord(b"a", b"1", 10), NewRecord(b"b", b"2", 20)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def test_appends_end_up_in_the_segment_file(oracle: Oracle, folder: Path) -> None:
    data = oracle.build_batch(PLAIN)
    with oracle.open_log(folder) as log:
        first = log.append(data, leader_epoch=3)
        second = log.append(data, leader_epoch=4)
        assert (first.first_offset, first.last_offset, first.max_timestamp) == (0, 1, 20)
        assert (second.first_offset, second.last_offset) == (2, 3)
        assert log.state().epochs == ((3, 0), (4, 2))
        assert log.read(2)[0] == log.read(0)[0][len(data) :]
        assert log.offset_by_timestamp(15) == (20, 1)
    stored = (folder / "00000000000000000000.log").read_bytes()
    batches = oracle.read_records(stored).batches
    assert [batch.base_offset for batch in batches] == [0, 2]
    assert [batch.partition_leader_epoch for batch in batches] == [3, 4]


def test_the_broker_refuses_what_the_validator_alone_does_not_see(
    oracle: Oracle, folder: Path
) -> None:
    shifted = oracle.build_batch(replace(PLAIN, base_offset=7))
    with oracle.open_log(folder, {"max.message.bytes": "100"}) as log:
        with pytest.raises(JavaError) as refused:
            log.append(shifted)
        assert refused.value.simple_name == "InvalidRecordException"
        with pytest.raises(JavaError) as refused:
            log.append(oracle.build_batch(NewBatch((NewRecord(value=b"v" * 100),))))
        assert refused.value.code == 10


def test_a_refused_append_names_its_records(oracle: Oracle, folder: Path) -> None:
    keyless = oracle.build_batch(NewBatch((NewRecord(value=b"v"),)))
    with oracle.open_log(folder, {"cleanup.policy": "compact"}) as log:
        with pytest.raises(JavaError) as refused:
            log.append(keyless)
        assert refused.value.code == 87
        assert [index for index, _ in refused.value.record_errors] == [0]


def test_an_aborted_transaction_is_told_to_readers(oracle: Oracle, folder: Path) -> None:
    batch = replace(PLAIN, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    with oracle.open_log(folder) as log:
        log.append(oracle.build_batch(batch))
        log.set_high_watermark(2)
        assert log.state().last_stable_offset == 0
        log.append(oracle.build_batch(NewMarker("ABORT", 5, 0, 1)), origin="COORDINATOR")
        state = log.set_high_watermark(3)
        assert state.last_stable_offset == 3
        [producer] = state.producers
        assert (producer.producer_id, producer.batches) == (5, ((0, 1, 0, 1),))
        assert log.read(0, isolation="TXN_COMMITTED")[1] == [(5, 0)]


def test_compaction_keeps_the_last_value_of_a_key(oracle: Oracle, folder: Path) -> None:
    data = oracle.build_batch(PLAIN)
    with oracle.open_log(folder, {"cleanup.policy": "compact"}) as log:
        log.append(data)
        log.append(data)
        log.set_high_watermark(4)
        log.roll()
        assert log.clean() == 4
        batches = oracle.read_records(log.read(0)[0]).batches
    assert [record.offset for batch in batches for record in batch.records] == [2, 3]


def test_retention_deletes_by_the_clock(oracle: Oracle, folder: Path) -> None:
    with oracle.open_log(folder, {"retention.ms": "1000"}) as log:
        log.append(oracle.build_batch(PLAIN))
        log.set_high_watermark(2)
        log.roll()
        assert log.delete_old_segments(now=500).segments == (0, 2)
        assert log.delete_old_segments(now=5000).segments == (2,)


def test_recovery_cuts_a_torn_batch(oracle: Oracle, folder: Path) -> None:
    data = oracle.build_batch(PLAIN)
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(data + data[:30])
    with oracle.open_log(folder, clean=False) as log:
        assert log.state().log_end_offset == 2
        assert log.truncate(0).log_end_offset == 0
