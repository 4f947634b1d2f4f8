"""The decisions of the controller as batches of the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.controller.feature_table import record_version
from kaa.controller.framing import encode_record
from kaa.controller.result import ControllerError
from kaa.limits import (
    METADATA_BATCH_BYTES_MAX,
    METADATA_RECORDS_PER_OPERATION_MAX,
    RECORDS_PER_PIECE,
)
from kaa.records.build import BatchBuilder
from kaa.wire.errors import Errors
from kaa.wire.schema import MetadataRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.controller.result import ControllerResult
    from kaa.model.pieces import Pieces


class MetadataBatch(NamedTuple):
    """Records that are written and applied together."""

    records: list[MetadataRecord]
    data: bytearray


def batches_of(
    result: ControllerResult[object], features: Mapping[str, int], *, epoch: int, timestamp: int
) -> Pieces[list[MetadataBatch]]:
    """One batch if the result is atomic, else batches that are small enough for one turn.

    UNKNOWN_SERVER_ERROR if records that must stay together, or one alone, do not fit a batch.
    """
    # What need not stay together is cut small: every node applies a batch in one turn of its loop.
    records_max = METADATA_RECORDS_PER_OPERATION_MAX if result.is_atomic else RECORDS_PER_PIECE
    batches: list[MetadataBatch] = []
    builder, records = BatchBuilder(partition_leader_epoch=epoch), list[MetadataRecord]()
    for number, record in enumerate(result.records, 1):
        if number % RECORDS_PER_PIECE == 0:
            yield
        value = encode_record(record, record_version(record, features))
        is_full = (
            builder.record_count >= records_max
            or builder.size_in_bytes + len(value) > METADATA_BATCH_BYTES_MAX
        )
        # One record above the bound would be in every snapshot, and none could be read.
        if is_full and (result.is_atomic or not builder.record_count):
            raise ControllerError(
                Errors.UNKNOWN_SERVER_ERROR,
                "the operation has too many or too large records for one batch",
            )
        if is_full:
            batches.append(MetadataBatch(records, builder.build()))
            builder, records = BatchBuilder(partition_leader_epoch=epoch), []
        builder.append(timestamp, None, value)
        records.append(record)
    if records:
        batches.append(MetadataBatch(records, builder.build()))
    return batches
