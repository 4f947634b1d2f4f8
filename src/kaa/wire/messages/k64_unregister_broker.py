"""UnregisterBroker, key 64. Removes the registration of a broker."""

from kaa.wire.schema import Int16, Int32, Request, Response, field


class UnregisterBrokerRequest(
    Request["UnregisterBrokerResponse"],
    key=64,
    versions="0",
    flexible="0+",
    listeners=("broker", "controller"),
):
    broker_id: Int32 = field("0+")


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
