from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.serialization import StringDeserializer, StringSerializer

from kaa.client.errors import ClientError, SerializationError
from kaa.client.serialization import (
    Serde,
    SerializationContext,
    serde_of,
    to_bytes,
    to_headers,
    wants_context,
)
from kaa.config.client import consumer_values, producer_values

SERVERS = {"bootstrap.servers": "localhost:9092"}


def test_text_is_utf_8_and_bytes_stay() -> None:
    assert to_bytes("grüß", "value") == "grüß".encode()
    assert to_bytes(b"x", "value") == b"x"
    assert to_bytes(None, "key") is None
    view = memoryview(b"x")
    assert to_bytes(view, "value") is view


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"a": 1}, "a value of type dict is neither bytes nor text; encode it, as with json.dumps"),
        (5, r"write it as text with str\(\), or as bytes, or set value.serializer"),
        (object(), "encode it to bytes or text, or set value.serializer"),
    ],
)
def test_the_rest_is_refused_with_what_to_do(data: object, hint: str) -> None:
    with pytest.raises(SerializationError, match=hint):
        to_bytes(data, "value")


def test_the_error_is_also_a_type_error() -> None:
    assert issubclass(SerializationError, TypeError)
    assert issubclass(SerializationError, ClientError)


@pytest.mark.parametrize(
    "headers",
    [{"a": b"1", "b": None, "c": "ö"}, [("a", b"1"), ("b", None), ("c", "ö")]],
)
def test_headers_are_a_dictionary_or_pairs(headers: Any) -> None:
    assert to_headers(headers) == [("a", b"1"), ("b", None), ("c", "ö".encode())]


@pytest.mark.parametrize("headers", [["a"], [("a",)], [(1, b"x")], {"a": 5}])
def test_other_headers_are_refused(headers: Any) -> None:
    with pytest.raises(SerializationError, match="header"):
        to_headers(headers)


def one(value: Any) -> Any:
    return value


def two(value: Any, where: Any) -> Any:
    return value, where


def with_default(value: Any, encoding: str = "utf-8") -> Any:
    return value, encoding


@pytest.mark.parametrize(
    ("function", "wants"),
    [
        (one, False),
        (two, True),
        (with_default, False),
        (json.dumps, False),
        (str.encode, False),
        (StringSerializer(), True),
        (StringDeserializer(), True),
    ],
)
def test_functions_of_other_clients_are_called_as_they_want(function: Any, wants: bool) -> None:
    assert wants_context(function) is wants


def test_the_context_says_where() -> None:
    found = Serde("key.serializer", two)(b"x", "orders", (("a", b"1"),))
    assert found == (b"x", SerializationContext("orders", "key", (("a", b"1"),)))


def test_what_fails_names_the_setting_and_the_topic() -> None:
    def fail(value: bytes) -> str:
        return value.decode()

    serde = Serde("value.deserializer", fail)
    with pytest.raises(SerializationError, match=r"value\.deserializer .* 'orders': Unicode"):
        serde(b"\xff", "orders")


@pytest.mark.parametrize(
    ("java", "data", "wire"),
    [
        ("org.apache.kafka.common.serialization.String", "ö", "ö".encode()),
        ("Long", 5, bytes(7) + b"\5"),
        ("org.apache.kafka.common.serialization.Integer", -1, b"\xff" * 4),
        ("Double", 1.0, b"\x3f\xf0" + bytes(6)),
    ],
)
def test_names_of_java(java: str, data: object, wire: bytes) -> None:
    values = producer_values({**SERVERS, "value.serializer": f"{java}Serializer"})
    write = serde_of("value.serializer", values, {})
    values = consumer_values({**SERVERS, "value.deserializer": f"{java}Deserializer"})
    read = serde_of("value.deserializer", values, {})
    assert write is not None
    assert read is not None
    assert write(data, "t") == wire
    assert read(wire, "t") == data


def test_bytes_need_no_function() -> None:
    values = producer_values({**SERVERS, "value.serializer": "ByteArraySerializer"})
    assert serde_of("value.serializer", values, {}) is None
    assert serde_of("key.serializer", values, {}) is None


@pytest.mark.parametrize(
    "java", ["AvroSerializer", "org.apache.StringSerializer", "StringDeserializer"]
)
def test_unknown_names_are_refused(java: str) -> None:
    values = producer_values({**SERVERS, "value.serializer": java})
    with pytest.raises(SerializationError, match="give a function, or one of ByteArraySerializer"):
        serde_of("value.serializer", values, {})
