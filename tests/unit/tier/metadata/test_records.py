"""That the bytes are Kafka's is shown by tests/conformance/tier."""

from __future__ import annotations

import pytest

from kaa.tier.metadata.model import PartitionDeleteState, PartitionDeletion, SegmentState
from kaa.tier.metadata.records import decode_event, encode_event, metadata_partition
from kaa.wire.messages.remote_log import RemoteLogSegmentMetadataRecord
from kaa.wire.primitives import WireError
from kaa.wire.record_frames import encode_record
from tests.unit.tier.metadata.samples import PARTITION, segment, update


def test_events_come_back() -> None:
    for event in (
        segment(1, 10, 39, (2, 10), (4, 20)),
        update(1, SegmentState.DELETE_SEGMENT_STARTED),
        PartitionDeletion(PARTITION, PartitionDeleteState.DELETE_PARTITION_MARKED, 3, 4),
    ):
        assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01\x00",
        b"\x01\x09\x00\x00",
        encode_event(segment(1, 0, 5))[:-3],
        # A state that does not exist, and a segment without epochs.
        encode_record(RemoteLogSegmentMetadataRecord(remote_log_segment_state=9), 0),
        encode_record(RemoteLogSegmentMetadataRecord(), 0),
    ],
)
def test_what_is_not_understood_is_refused(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_event(value)


def test_a_partition_stays_where_it_is_while_the_topic_lives() -> None:
    assert metadata_partition(PARTITION, 50) == metadata_partition(
        PARTITION._replace(topic="renamed"), 50
    )
    spread = {metadata_partition(PARTITION._replace(partition=one), 50) for one in range(500)}
    assert spread == set(range(50))
