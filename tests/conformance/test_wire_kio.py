"""Requests and responses against kio, a codec of other hands that needs neither Java nor Maven.

kio must read every byte that Kaa writes, see the same values, and write the same bytes again. It
has no durable records; those are compared with Java alone.

kio reads some numbers as something richer and refuses those that have no such meaning: error codes,
times and finite fractions. Instances for it are drawn with that in mind.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from io import BytesIO
from random import Random
from typing import Any

import pytest
from kio.index import UnknownEntity, load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kaa.wire import UUID_ZERO, Uuid
from kaa.wire.schema import UUID, Field, Fixed, Message, Request, Response, Struct, fields_of
from tests.support.wire.instances import SHAPES, InstanceMaker, all_messages, versions_of

HEADERS_AND_DATA = {
    "ConsumerProtocolAssignment": "consumer_protocol_assignment",
    "ConsumerProtocolSubscription": "consumer_protocol_subscription",
    "ControlRecordTypeSchema": "control_record_type_schema",
    "DefaultPrincipalData": "default_principal_data",
    "EndTxnMarker": "end_txn_marker",
    "KRaftVersionRecord": "k_raft_version_record",
    "LeaderChangeMessage": "leader_change_message",
    "RequestHeader": "request_header",
    "ResponseHeader": "response_header",
    "SnapshotFooterRecord": "snapshot_footer_record",
    "SnapshotHeaderRecord": "snapshot_header_record",
    "VotersRecord": "voters_record",
}


class KioInstanceMaker(InstanceMaker):
    def fixed(self, field: Field, element: Fixed) -> Any:
        if element.name == "int16" and "error_code" in field.name:
            return self.random.choice((-1, 0, 3, 87))
        if element.name == "int64" and ("time" in field.name or field.name.endswith("_ms")):
            return self.random.choice((0, 1_000, 1_700_000_000_000))
        if element.name == "float64":
            return self.random.choice((0.0, -1.5, 1e308))
        return super().fixed(field, element)


IN_KIO = [
    message
    for message in all_messages()
    if issubclass(message, Request | Response) or message.__name__ in HEADERS_AND_DATA
]


def kio_schema(message: type[Message], version: int) -> Any:
    api_name = message.__module__.rpartition(".")[2].partition("_")[2]
    if issubclass(message, Request):
        return load_entity_schema(api_name, version, EntityType.request)
    if issubclass(message, Response):
        return load_entity_schema(api_name, version, EntityType.response)
    name = HEADERS_AND_DATA[message.__name__]
    if name.endswith("header"):
        return load_entity_schema(name, version, EntityType.header)
    return load_entity_schema(name, version, EntityType.data)


def assert_same_values(ours: Struct, theirs: Any, version: int) -> int:
    """Compares what has the same name on both sides; returns how many values that were."""
    compared = 0
    for field in fields_of(type(ours)):
        their_name = f"{field.name}_" if hasattr(theirs, f"{field.name}_") else field.name
        if version not in field.versions or not hasattr(theirs, their_name):
            continue
        our, their = getattr(ours, field.name), getattr(theirs, their_name)
        if field.is_struct and field.is_array and our is not None:
            for one, other in zip(our, their, strict=True):
                compared += assert_same_values(one, other, version)
        elif field.is_struct and our is not None:
            compared += assert_same_values(our, their, version)
        elif not field.is_struct and not isinstance(their, datetime | timedelta):
            compared += 1
            assert our == plain_value(their, field), field.name
    return compared


def plain_value(value: Any, field: Field) -> Any:
    """A value of kio's as ours; a uuid of zeros is None there."""
    if not field.is_array:
        return plain_element(value, field)
    return None if value is None else [plain_element(element, field) for element in value]


def plain_element(value: Any, field: Field) -> Any:
    if field.element is not UUID:
        return value
    return UUID_ZERO if value is None else Uuid(value.bytes)


def test_kio_has_every_request_and_response() -> None:
    """A version that kio lacks would be compared with nothing, so that is reported here."""
    missing = []
    for message in IN_KIO:
        for version in versions_of(message):
            try:
                kio_schema(message, version)
            except UnknownEntity:
                missing.append(f"{message.__name__} v{version}")
    assert missing == []


@pytest.mark.parametrize("message", IN_KIO, ids=lambda message: str(message.__name__))
def test_kio_reads_and_writes_the_same_bytes(message: type[Message]) -> None:
    for version in versions_of(message):
        schema = kio_schema(message, version)
        read, write = entity_reader(schema), entity_writer(schema)
        maker = KioInstanceMaker(Random(f"{message.__name__} {version}"), message, version)
        compared = 0
        for shape in SHAPES:
            instance = maker.make(shape)
            data = instance.encode(version)
            theirs, size = read(data, 0)
            assert size == len(data)
            compared += assert_same_values(instance, theirs, version)
            again = BytesIO()
            write(again, theirs)
            assert again.getvalue() == data
            assert message.decode(again.getvalue(), version) == instance
        assert compared or not any(version in field.versions for field in fields_of(message))
