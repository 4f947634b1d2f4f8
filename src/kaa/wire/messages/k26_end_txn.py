"""EndTxn, key 26. Commits or aborts a transaction."""

from kaa.wire.schema import Int16, Int32, Int64, Request, Response, field


class EndTxnRequest(Request["EndTxnResponse"], key=26, versions="0-5", flexible="3+"):
    transactional_id: str = field("0+")
    producer_id: Int64 = field("0+")
    producer_epoch: Int16 = field("0+")
    committed: bool = field("0+")


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    producer_id: Int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: Int16 = field("5+", default=-1, ignorable=True)
