"""AllocateProducerIds, key 67. Hands a block of producer ids from the controller to a broker."""

from kaa.wire.schema import Int16, Int32, Int64, Request, Response, field


class AllocateProducerIdsRequest(
    Request["AllocateProducerIdsResponse"],
    key=67,
    versions="0",
    flexible="0+",
    listeners=("controller",),
):
    broker_id: Int32 = field("0+")
    broker_epoch: Int64 = field("0+", default=-1)


class AllocateProducerIdsResponse(Response, key=67, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    producer_id_start: Int64 = field("0+")
    producer_id_len: Int32 = field("0+")
