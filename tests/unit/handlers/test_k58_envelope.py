from __future__ import annotations

import struct

import pytest

from kaa.handlers.k58_envelope import FORWARDABLE
from kaa.limits import METADATA_PARTITIONS_PER_SLICE_MAX
from kaa.wire.errors import Errors
from kaa.wire.frames import decode_response, encode_request
from kaa.wire.messages.embedded import DefaultPrincipalData
from kaa.wire.messages.k03_metadata import MetadataRequest
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.messages.k58_envelope import EnvelopeRequest
from kaa.wire.registry import api
from kaa.wire.schema import Request
from tests.unit.handlers.support import Node

PRINCIPAL = struct.pack(">h", 0) + DefaultPrincipalData(type="User", name="ANONYMOUS").encode(0)
LOOPBACK = bytes((127, 0, 0, 1))
CREATE = CreateTopicsRequest(
    topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)], timeout_ms=60_000
)


def packed(request: Request, version: int) -> bytes:
    return b"".join(encode_request(request, version, 77, "client"))[4:]


def envelope(
    data: bytes, principal: bytes | None = PRINCIPAL, address: bytes = LOOPBACK
) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=data, request_principal=principal, client_host_address=address
    )


@pytest.mark.parametrize("version", [2, 7])
def test_a_response_in_the_envelope(node: Node, version: int) -> None:
    response = node.ask(envelope(packed(CREATE, version)), listener="CONTROLLER")
    assert response.error_code == Errors.NONE
    correlation_id, inner = decode_response(response.response_data, api(19), version)
    assert correlation_id == 77
    assert [topic.error_code for topic in inner.topics] == [Errors.NONE]
    assert node.partition("t").is_leader


def test_a_handler_that_answers_at_once(node: Node) -> None:
    data = packed(ListPartitionReassignmentsRequest(), 0)
    response = node.ask(envelope(data), listener="CONTROLLER")
    assert decode_response(response.response_data, api(46), 0)[1].error_code == Errors.NONE


def test_an_answer_of_very_many_parts(node: Node) -> None:
    count = METADATA_PARTITIONS_PER_SLICE_MAX + 1
    topic = RequestTopicData(
        topic_name="t", partitions=[RequestPartitionData(partition_index=n) for n in range(count)]
    )
    data = packed(DescribeQuorumRequest(topics=[topic]), 2)
    response = node.ask(envelope(data), listener="CONTROLLER")
    correlation_id, inner = decode_response(response.response_data, api(55), 2)
    assert correlation_id == 77
    errors = [one.error_code for one in inner.topics[0].partitions]
    assert errors == [Errors.UNKNOWN_TOPIC_OR_PARTITION] * count


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (envelope(b"", None), Errors.PRINCIPAL_DESERIALIZATION_FAILURE),
        (envelope(b"", b""), Errors.PRINCIPAL_DESERIALIZATION_FAILURE),
        (envelope(b"", b"\0\1" + PRINCIPAL[2:]), Errors.PRINCIPAL_DESERIALIZATION_FAILURE),
        (envelope(b"", PRINCIPAL[:-3]), Errors.PRINCIPAL_DESERIALIZATION_FAILURE),
        (envelope(b"", address=b"\x7f"), Errors.INVALID_REQUEST),
        (envelope(b"abc"), Errors.UNSUPPORTED_VERSION),
        (envelope(packed(MetadataRequest(topics=[]), 7)), Errors.INVALID_REQUEST),
        (envelope(b"\0\x13\0\x63" + packed(CREATE, 7)[4:]), Errors.UNSUPPORTED_VERSION),
        (envelope(packed(CREATE, 7)[:-8]), Errors.UNSUPPORTED_VERSION),
    ],
)
def test_envelopes_that_cannot_be_opened(
    node: Node, request_: EnvelopeRequest, error: Errors
) -> None:
    response = node.ask(request_, listener="CONTROLLER")
    assert (response.error_code, response.response_data) == (error, None)


def test_only_what_a_controller_serves_is_passed_on() -> None:
    assert all("controller" in api(key).listener_types for key in FORWARDABLE)
