"""Every message: what is written is read back, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaa.wire import Uuid
from kaa.wire.messages.control import VotersRecord
from kaa.wire.messages.k00_produce import ProduceRequest
from kaa.wire.messages.k01_fetch import FetchRequest, FetchResponse
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from kaa.wire.messages.k11_join_group import JoinGroupRequest
from kaa.wire.messages.k18_api_versions import ApiVersionsResponse
from kaa.wire.messages.k48_describe_client_quotas import DescribeClientQuotasResponse
from kaa.wire.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from kaa.wire.messages.offsets_consumer import ConsumerGroupMemberMetadataValue
from kaa.wire.schema import RECORDS, Field, Fixed, Message, Struct, fields_of
from tests.support.wire.instances import SHAPES, Shape, all_messages, instances, message_versions
from tests.support.wire.twins import TWINS, codec_of

REPRESENTATIVE: list[type[Message]] = [
    ApiVersionsResponse,
    ConsumerGroupMemberMetadataValue,
    DescribeClientQuotasResponse,
    FetchRequest,
    FetchResponse,
    JoinGroupRequest,
    MetadataRequest,
    MetadataResponse,
    PartitionChangeRecord,
    ProduceRequest,
    StreamsGroupHeartbeatRequest,
    VotersRecord,
]

SIGNED = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
UNSIGNED = {"uint16": 16, "uint32": 32}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def values(field: Field, version: int, *, is_flexible: bool) -> st.SearchStrategy[Any]:
    strategy = elements(field, version, is_flexible=is_flexible)
    if field.is_array:
        strategy = st.lists(strategy, max_size=3)
    elif field.is_struct and field.default is None and version not in field.nullable:
        plain = field.element()
        strategy = strategy.map(lambda struct: None if struct == plain else struct) | st.none()
    return strategy | st.none() if version in field.nullable else strategy


def elements(field: Field, version: int, *, is_flexible: bool) -> st.SearchStrategy[Any]:
    element = field.element
    if element is str:
        return TEXTS
    if element is bytes or element is RECORDS:
        return st.binary(max_size=200)
    if not isinstance(element, Fixed):
        return structs(element, version, is_flexible=is_flexible)
    if element.name in SIGNED:
        bits = SIGNED[element.name]
        return st.integers(-(1 << bits), (1 << bits) - 1)
    if element.name in UNSIGNED:
        return st.integers(0, (1 << UNSIGNED[element.name]) - 1)
    if element.name == "uuid":
        return st.binary(min_size=16, max_size=16).map(Uuid)
    return st.booleans() if element.name == "bool" else st.floats(allow_nan=False)


def structs(struct: type[Struct], version: int, *, is_flexible: bool) -> st.SearchStrategy[Any]:
    known = {field.tag for field in fields_of(struct) if field.tag is not None}
    tags = sorted({0, 1, 127, 128, 2**31 - 2} - known)
    unknown = st.dictionaries(st.sampled_from(tags), st.binary(max_size=20), max_size=2)
    fields = {
        field.name: values(field, version, is_flexible=is_flexible)
        for field in fields_of(struct)
        if version in field.versions
    }
    fields["unknown_tags"] = unknown if is_flexible else st.none()
    return st.fixed_dictionaries(fields).map(lambda chosen: struct(**chosen))


@pytest.mark.parametrize("message", REPRESENTATIVE, ids=lambda message: str(message.__name__))
@given(data=st.data())
@settings(max_examples=settings().max_examples // 5)
def test_what_is_written_is_read_back(message: type[Message], data: st.DataObject) -> None:
    low, high = message.valid_versions
    version = data.draw(st.integers(low, high), label="version")
    is_flexible = version in message.flexible_versions
    instance = data.draw(structs(message, version, is_flexible=is_flexible), label="message")
    encoded = instance.encode(version)
    for twin in TWINS:
        decoded = codec_of(message, version, twin).decode(encoded)
        assert decoded == instance
        assert decoded.encode(version) == encoded


@pytest.mark.parametrize("twin", TWINS)
def test_every_message_is_read_back_in_every_version(twin: str) -> None:
    count = 0
    for message, version in message_versions():
        codec = codec_of(message, version, twin)
        for unknown_tags in (False, True):
            for instance in instances(message, version, unknown_tags=unknown_tags):
                data = instance.encode(version)
                decoded = codec.decode(data)
                assert decoded == instance, (message, version)
                assert decoded.encode(version) == data
                count += 1
    assert count == 2 * len(SHAPES) * 728


def test_the_default_of_every_message_can_be_written_where_it_is_valid() -> None:
    """A message that is made without arguments has no field that some version cannot carry, unless
    that version has records, which have no default there.
    """
    for message, version in message_versions():
        plain = message()
        [default] = instances(message, version, (Shape.DEFAULT,))
        if plain == default:
            assert message.decode(plain.encode(version), version) == plain


def test_there_are_as_many_messages_as_in_kafka() -> None:
    assert len(all_messages()) == 272
    assert len(list(message_versions())) == 728
