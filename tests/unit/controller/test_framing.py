from __future__ import annotations

import pytest

from kaa.controller.framing import decode_record, encode_record, record_classes
from kaa.wire.messages.metadata_cluster import NoOpRecord
from kaa.wire.messages.metadata_topics import TopicRecord
from kaa.wire.primitives import WireError
from tests.unit.controller.cluster import uuid


def test_a_frame_is_three_numbers_and_the_message() -> None:
    assert encode_record(NoOpRecord(), 0) == b"\x01\x14\x00\x00"
    record = TopicRecord(name="t", topic_id=uuid(1))
    value = encode_record(record, 0)
    assert value[:3] == b"\x01\x02\x00"
    assert decode_record(value) == (record, 0)
    # A number may be written longer than it needs to be.
    assert decode_record(b"\x81\x00\x82\x00\x80\x00" + value[3:]) == (record, 0)


def test_every_record_of_kafka_is_known() -> None:
    assert sorted(record_classes()) == [
        *range(6),
        *range(7, 13),
        *range(14, 16),
        *range(17, 29),
    ]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        b"\x01\x14",
        b"\x02\x14\x00\x00",
        b"\x01\x7f\x00\x00",
        b"\x01\xff\x01\x00\x00",
        b"\x81\x94\x80",
    ],
)
def test_what_is_no_record(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_record(value)
