"""The Kafka protocol: every message of the pinned Kafka as a typed class, and the code that reads
and writes it.

Pure: bytes in, messages out, and back. Start reading at `schema` (what a message class is), then
any module of `messages`, then `codec` (how a class becomes code).

    from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest

    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["my-group"])
    data = request.encode(version=4)
    assert FindCoordinatorRequest.decode(data, version=4) == request

| module | what it owns |
|---|---|
| `primitives` | ranges of versions, `Uuid`, varints, tagged fields, `WireError` |
| `schema` | the base classes of messages and the `field` declaration |
| `codec`, `decoder`, `encoder`, `source` | compilation of a class into code, per version |
| `messages` | one module per API with request and response; records by topic or file |
| `registry` | API keys, their messages, headers, listeners, served and advertised versions |
| `frames` | size, header and body on a connection |
| `errors` | the table of error codes |
| `plan` | turns message classes into plans for the compiled decoder, where that was built |
| `record_frames` | records that say their own type |
| `version` | the one Kafka version that Kaa speaks, and that its tests compare it with |
"""

from kaa.wire.codec import Codec
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO, Uuid, Versions, WireError
from kaa.wire.registry import Api, ApiKey, api
from kaa.wire.schema import Message, Request, Response
from kaa.wire.version import KAFKA_VERSION

__all__ = [
    "KAFKA_VERSION",
    "UUID_ZERO",
    "Api",
    "ApiKey",
    "Codec",
    "Errors",
    "Message",
    "Request",
    "Response",
    "Uuid",
    "Versions",
    "WireError",
    "api",
]
