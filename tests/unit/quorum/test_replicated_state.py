from __future__ import annotations

from kaa.quorum.control_records import build_control_records, kraft_version_record
from kaa.quorum.replicated_state import committed_batch
from kaa.records.batch import RecordBatch
from kaa.records.build import BatchBuilder


def test_values_of_data_batches() -> None:
    builder = BatchBuilder(base_offset=10, partition_leader_epoch=3)
    for value in (b"a", None, b"c"):
        builder.append(50, None, value)
    data = builder.build()
    found = committed_batch(RecordBatch(data))
    assert found[:-1] == (10, 12, 3, 50, len(data))
    assert list(found.values) == [b"a", b"", b"c"]


def test_control_batches_have_no_values() -> None:
    data = build_control_records([kraft_version_record(1)], timestamp=5, base_offset=7, epoch=2)
    found = committed_batch(RecordBatch(data))
    assert found[:-1] == (7, 7, 2, 5, len(data))
    assert list(found.values) == []
