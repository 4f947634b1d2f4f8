from __future__ import annotations

from kaa.client.consumer.records import ConsumerRecord, deserialized, records_of
from kaa.client.serialization import Serde
from kaa.records import Record


def test_records_have_the_name_of_their_partition() -> None:
    (record,) = records_of("orders", 3, [Record(7, 1000, b"k", b"v", (("h", b"x"),), 5)])
    assert record == ConsumerRecord("orders", 3, 7, 1000, b"k", b"v", (("h", b"x"),), 5)
    assert type(record) is ConsumerRecord
    assert record.timestamp == record.timestamp_ms == 1000


def test_functions_see_what_is_there() -> None:
    upper = Serde("value.deserializer", bytes.upper)
    record = ConsumerRecord("orders", 0, 0, 0, b"k", b"v")
    assert deserialized(record, None, upper) == record._replace(value=b"V")
    tombstone = record._replace(value=None)
    assert deserialized(tombstone, None, upper) == tombstone
