"""Every fuzz target by its name."""

from __future__ import annotations

from collections.abc import Iterator

from kaa.records import (
    BatchBuilder,
    CompressionType,
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from tests.fuzz import wire
from tests.fuzz.records import fuzz_record_batch
from tests.fuzz.target import Target


def batch_seeds() -> Iterator[bytes]:
    for compression_type in CompressionType:
        builder = BatchBuilder(
            compression_type=compression_type,
            producer_id=7,
            producer_epoch=1,
            base_sequence=0,
            is_transactional=True,
        )
        builder.append(1_000, b"key", b"value" * 9, [("header", b"x"), ("null", None)])
        builder.append(1_001, None, None)
        yield bytes(builder.build())
    marker = EndTransactionMarker(ControlRecordType.COMMIT, 3)
    yield bytes(
        build_end_transaction_batch(marker, producer_id=7, producer_epoch=1, timestamp=1_000)
    )


TARGETS = {
    target.name: target
    for target in (*wire.TARGETS, Target("record_batch", fuzz_record_batch, batch_seeds))
}
