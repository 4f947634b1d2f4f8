"""Envelope, key 58: a broker passes on what a client wants from the controller, and who that client
is (KIP-590).

The envelope is checked from the outside in: the principal, the address of the client, the header of
the request inside, whether its API may be passed on at all, its body. The answer is the response
inside an envelope, header and all; an error of the envelope itself has no response in it.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Final

from kaa.controller.result import ControllerError
from kaa.handlers.context import RequestContext, response_of
from kaa.handlers.registry import encode_in_thread, find_handlers, is_long
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.frames import encode_response, read_request_header
from kaa.wire.messages.embedded import DefaultPrincipalData
from kaa.wire.messages.k58_envelope import EnvelopeResponse
from kaa.wire.primitives import WireError
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from kaa.handlers.context import Answer
    from kaa.handlers.registry import Served
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k58_envelope import EnvelopeRequest

_VERSION: Final = struct.Struct(">h")
_SIZE: Final = struct.Struct(">i")
_ADDRESS_BYTES: Final = frozenset({4, 16})
FORWARDABLE: Final = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
)


@cache
def _forwardable() -> dict[int, Served]:
    return find_handlers(FORWARDABLE)


def handle(
    services: NodeServices, request: EnvelopeRequest, context: RequestContext
) -> Answer[EnvelopeResponse]:
    return Pending(_open(services, request, context))


async def _open(
    services: NodeServices, request: EnvelopeRequest, context: RequestContext
) -> EnvelopeResponse:
    if not _is_principal(request.request_principal):
        return EnvelopeResponse(error_code=Errors.PRINCIPAL_DESERIALIZATION_FAILURE)
    if len(request.client_host_address) not in _ADDRESS_BYTES:
        return EnvelopeResponse(error_code=Errors.INVALID_REQUEST)
    try:
        header = read_request_header(request.request_data)
    except WireError:
        return EnvelopeResponse(error_code=Errors.UNSUPPORTED_VERSION)
    served = _forwardable().get(header.api_key)
    if served is None:
        return EnvelopeResponse(error_code=Errors.INVALID_REQUEST)
    try:
        if header.api_version not in served.versions:
            raise WireError("a version that is not served")
        codec = served.api.request.codec(header.api_version)
        inner, _ = codec.decode_prefix(memoryview(request.request_data)[header.body_position :])
    except WireError:
        return EnvelopeResponse(error_code=Errors.UNSUPPORTED_VERSION)
    passed_on = RequestContext(header, context.connection, is_enveloped=True)
    try:
        response = await response_of(served.handle(services, inner, passed_on))
    except ControllerError as refusal:
        # The broker looks for the active controller and asks that one.
        return EnvelopeResponse(error_code=refusal.error)
    assert response is not None, "what may be forwarded is answered"
    if is_long(response):
        parts = await encode_in_thread(services, response, header)
    else:
        parts = encode_response(response, header.api_version, header.correlation_id)
    return EnvelopeResponse(response_data=b"".join(parts)[_SIZE.size :])


def _is_principal(data: bytes | None) -> bool:
    """Whether the bytes are a version and a principal of that version."""
    if data is None or len(data) < _VERSION.size:
        return False
    (version,) = _VERSION.unpack_from(data)
    if version not in DefaultPrincipalData.valid_versions:
        return False
    try:
        DefaultPrincipalData.decode(memoryview(data)[_VERSION.size :], version)
    except WireError:
        return False
    return True
