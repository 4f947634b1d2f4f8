from __future__ import annotations

import pytest

from kaa.controller.framing import decode_record
from kaa.controller.result import ControllerError, ControllerResult
from kaa.controller.writing import batches_of
from kaa.limits import METADATA_BATCH_BYTES_MAX, RECORDS_PER_PIECE
from kaa.model.pieces import finish
from kaa.records.batch import RecordBatch
from kaa.records.record import iter_records
from kaa.wire.errors import Errors
from kaa.wire.messages.metadata_cluster import BrokerEndpoint, NoOpRecord, RegisterBrokerRecord
from kaa.wire.messages.metadata_settings import ConfigRecord
from kaa.wire.schema import MetadataRecord

FEATURES = {"metadata.version": 30}


def test_one_batch_where_it_fits() -> None:
    records: list[MetadataRecord] = [NoOpRecord(), ConfigRecord(name="a", value="b")]
    (batch,) = finish(batches_of(ControllerResult(records, None), FEATURES, epoch=3, timestamp=5))
    assert batch.records == records
    read = RecordBatch(batch.data)
    assert (read.partition_leader_epoch, read.max_timestamp) == (3, 5)
    assert [decode_record(each.value or b"")[0] for each in iter_records(read)] == records


def test_nothing_is_no_batch() -> None:
    assert finish(batches_of(ControllerResult([], None), FEATURES, epoch=1, timestamp=0)) == []


@pytest.mark.parametrize("is_atomic", [True, False])
def test_a_record_fits_a_batch_alone(is_atomic: bool) -> None:
    points = [BrokerEndpoint(name="l" * 32_000, host="h")] * (METADATA_BATCH_BYTES_MAX // 32_000)
    for count, is_taken in ((len(points), True), (len(points) + 1, False)):
        record = RegisterBrokerRecord(end_points=(points * 2)[:count])
        result = ControllerResult[object]([record], None, is_atomic=is_atomic)
        if is_taken:
            assert len(finish(batches_of(result, FEATURES, epoch=1, timestamp=0))) == 1
            continue
        with pytest.raises(ControllerError) as refused:
            finish(batches_of(result, FEATURES, epoch=1, timestamp=0))
        assert refused.value.error is Errors.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("records", "count"),
    [
        ([NoOpRecord()] * 10_001, 10_000 // RECORDS_PER_PIECE + 1),
        ([ConfigRecord(name="a", value="x" * 32_000)] * 300, 300 // RECORDS_PER_PIECE),
    ],
)
def test_what_need_not_stay_together_is_split(records: list[MetadataRecord], count: int) -> None:
    batches = finish(
        batches_of(ControllerResult(records, None, is_atomic=False), FEATURES, epoch=1, timestamp=0)
    )
    assert len(batches) == count
    assert sum(len(batch.records) for batch in batches) == len(records)
    with pytest.raises(ControllerError) as refused:
        finish(batches_of(ControllerResult(records, None), FEATURES, epoch=1, timestamp=0))
    assert refused.value.error is Errors.UNKNOWN_SERVER_ERROR
