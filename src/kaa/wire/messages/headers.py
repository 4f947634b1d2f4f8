"""The headers of requests and responses."""

from kaa.wire.schema import Data, Int16, Int32, field


class RequestHeader(Data, versions="1-2", flexible="2+"):
    """Stands before every request."""

    request_api_key: Int16 = field("0+")
    request_api_version: Int16 = field("0+")
    correlation_id: Int32 = field("0+")
    client_id: str | None = field("1+", flexible=False)


class ResponseHeader(Data, versions="0-1", flexible="1+"):
    """Stands before every response."""

    correlation_id: Int32 = field("0+")
