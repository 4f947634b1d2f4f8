"""AddOffsetsToTxn, key 25. Adds a consumer group's offsets to a transaction."""

from kaa.wire.schema import Int16, Int32, Int64, Request, Response, field


class AddOffsetsToTxnRequest(
    Request["AddOffsetsToTxnResponse"], key=25, versions="0-4", flexible="3+"
):
    transactional_id: str = field("0+")
    producer_id: Int64 = field("0+")
    producer_epoch: Int16 = field("0+")
    group_id: str = field("0+")


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
