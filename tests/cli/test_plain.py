from __future__ import annotations

from kaa.cli.plain import decoder_of, plain_bytes, plain_control, plain_message, plain_record
from kaa.controller.framing import encode_record
from kaa.records import Record
from kaa.records.control import (
    ControlRecordType,
    encode_control_key,
    encode_end_transaction_value,
)
from kaa.wire.messages.control import LeaderChangeMessage
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.metadata_topics import TopicRecord
from kaa.wire.messages.offsets_classic import OffsetCommitKey, OffsetCommitValue
from kaa.wire.messages.transaction_log import TransactionLogKey
from kaa.wire.primitives import Uuid

TOPIC_ID = Uuid(bytes(range(16)))


def test_only_the_fields_of_the_version() -> None:
    message = FindCoordinatorRequest(key="g", key_type=1)
    assert plain_message(message, 1) == {"key": "g", "key_type": 1}
    assert plain_message(message, 4) == {"key_type": 1, "coordinator_keys": []}


def test_bytes() -> None:
    assert [plain_bytes(data) for data in (None, b"a", b"\xff")] == [None, "a", {"base64": "/w=="}]


def test_topics_have_decoders() -> None:
    assert decoder_of("__consumer_offsets") == "offsets"
    assert decoder_of("orders") == "text"


def test_records_of_internal_topics() -> None:
    key = b"\0\1" + OffsetCommitKey(group="g", topic="t", partition=2).encode(0)
    value = b"\0\4" + OffsetCommitValue(offset=7, topic_id=TOPIC_ID).encode(4)
    plain = plain_record(Record(5, 9, key, value), "offsets")
    assert plain["type"] == "OffsetCommit"
    assert plain["key"] == {"group": "g", "topic": "t", "partition": 2}
    assert plain["value"]["offset"] == 7
    assert plain["value"]["topic_id"] == str(TOPIC_ID)
    key = b"\0\0" + TransactionLogKey(transactional_id="x").encode(0)
    assert plain_record(Record(5, 9, key, None), "transactions")["key"] == {"transactional_id": "x"}
    metadata = encode_record(TopicRecord(name="t", topic_id=TOPIC_ID), 0)
    plain = plain_record(Record(5, 9, None, metadata), "metadata")
    assert plain["type"] == "TopicRecord"
    assert plain["value"] == {"name": "t", "topic_id": str(TOPIC_ID)}


def test_what_is_not_understood_says_so() -> None:
    assert plain_record(Record(0, 0, b"k", b"v"), "text")["value"] == "v"
    assert "error" in plain_record(Record(0, 0, b"\0\x7f", b""), "offsets")
    assert "error" in plain_record(Record(0, 0, None, b"\xff"), "metadata")


def test_control_records() -> None:
    marker = Record(
        3, 4, encode_control_key(ControlRecordType.COMMIT), encode_end_transaction_value(8)
    )
    assert plain_control(marker) == {
        "offset": 3,
        "timestamp_ms": 4,
        "type": "COMMIT",
        "value": {"coordinator_epoch": 8},
    }
    change = LeaderChangeMessage(leader_id=2).encode(0)
    leader = Record(0, 4, encode_control_key(ControlRecordType.LEADER_CHANGE), change)
    assert plain_control(leader)["value"]["leader_id"] == 2
