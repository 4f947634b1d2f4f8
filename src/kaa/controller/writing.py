"""The decisions of the controller as batches of the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.controller.feature_table import record_version
from kaa.controller.framing import encode_record
from kaa.controller.result import ControllerError
from kaa.limits import (
    METADATA_BATCH_BYTES_MAX,
    METADATA_RECORDS_PER_OPERATION_MAX,
    METADATA_RECORDS_PER_PIECE,
)
from kaa.records.build import BatchBuilder
from kaa.wire.errors import Errors
from kaa.wire.schema import MetadataRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.controller.pieces import Pieces
    from kaa.controller.result import Result


class RecordBatch(NamedTuple):
    """Records that are written and applied together."""

    records: list[MetadataRecord]
    data: bytearray


def batches_of(
    result: Result[object], features: Mapping[str, int], *, epoch: int, timestamp: int
) -> Pieces[list[RecordBatch]]:
    """One batch if the result is atomic or fits, else as few as possible.

    UNKNOWN_SERVER_ERROR if records that must stay together do not fit a batch.
    """
    batches: list[RecordBatch] = []
    builder, records = BatchBuilder(partition_leader_epoch=epoch), list[MetadataRecord]()
    for number, record in enumerate(result.records, 1):
        if number % METADATA_RECORDS_PER_PIECE == 0:
            yield
        value = encode_record(record, record_version(record, features))
        is_full = (
            builder.record_count >= METADATA_RECORDS_PER_OPERATION_MAX
            or builder.size_in_bytes + len(value) > METADATA_BATCH_BYTES_MAX
        )
        if is_full and result.is_atomic:
            raise ControllerError(
                Errors.UNKNOWN_SERVER_ERROR,
                "the operation has too many or too large records for one batch",
            )
        if is_full and builder.record_count:
            batches.append(RecordBatch(records, builder.build()))
            builder, records = BatchBuilder(partition_leader_epoch=epoch), []
        builder.append(timestamp, None, value)
        records.append(record)
    if records:
        batches.append(RecordBatch(records, builder.build()))
    return batches
