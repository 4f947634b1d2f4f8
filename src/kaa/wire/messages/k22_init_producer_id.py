"""InitProducerId, key 22. Gives a producer its id and epoch and, for a transactional one, ends
what an earlier instance left open.
"""

from kaa.wire.schema import Int16, Int32, Int64, Request, Response, field


class InitProducerIdRequest(
    Request["InitProducerIdResponse"],
    key=22,
    versions="0-6",
    flexible="2+",
    latest_version_unstable=True,
):
    transactional_id: str | None = field("0+")
    transaction_timeout_ms: Int32 = field("0+")
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)
    enable_2pc: bool = field("6+")
    keep_prepared_txn: bool = field("6+")


class InitProducerIdResponse(Response, key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: Int32 = field("0+", ignorable=True)
    error_code: Int16 = field("0+")
    producer_id: Int64 = field("0+", default=-1)
    producer_epoch: Int16 = field("0+")
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)
