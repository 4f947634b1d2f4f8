from __future__ import annotations

import pytest

from kaa.wire.messages.metadata_cluster import NoOpRecord
from kaa.wire.primitives import WireError
from kaa.wire.record_frames import decode_record, encode_record

CLASSES = {NoOpRecord.record_type: NoOpRecord}


def test_a_frame_is_three_numbers_and_the_message() -> None:
    value = encode_record(NoOpRecord(), 0)
    assert value == b"\x01\x14\x00\x00"
    assert decode_record(value, CLASSES) == (NoOpRecord(), 0)


@pytest.mark.parametrize("value", [b"", b"\x01\x14", b"\x02\x14\x00\x00", b"\x01\x15\x00\x00"])
def test_what_is_not_a_record(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_record(value, CLASSES)
