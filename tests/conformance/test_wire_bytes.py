"""The bytes of every version of every message against Java's, in both directions.

For each instance: Java writes the same bytes from the same values, reads our bytes as those values
without a byte left over, and writes them again unchanged; and Java's bytes are read here as the
instance. Tagged fields that nobody knows are in Java's hands as in ours: kept, and written again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kaa.wire.schema import Message, Request, Response
from tests.oracle.client import Oracle
from tests.oracle.model import JavaError, MessageBytes, MessageJson
from tests.support.wire.instances import SHAPES, Shape, all_messages, instances, versions_of
from tests.support.wire.json import kafka_json

pytestmark = pytest.mark.oracle

every_message = pytest.mark.parametrize(
    "message", all_messages(), ids=lambda message: str(message.__name__)
)


def java_name(message: type[Message]) -> str:
    has_suffix = issubclass(message, Request | Response) or message.__name__.endswith("Header")
    return f"{message.__name__}Data" if has_suffix else message.__name__


def drawn(message: type[Message], **options: Any) -> list[tuple[int, Any]]:
    """Instances of all versions, each with its version."""
    return [
        (version, instance)
        for version in versions_of(message)
        for instance in instances(message, version, **options)
    ]


@every_message
def test_java_writes_the_same_bytes(message: type[Message], oracle: Oracle) -> None:
    cases = drawn(message)
    name = java_name(message)
    answers = oracle.write_messages(
        [MessageJson(name, version, kafka_json(instance, version)) for version, instance in cases]
    )
    for (version, instance), theirs in zip(cases, answers, strict=True):
        assert not isinstance(theirs, JavaError), (version, instance, theirs)
        assert instance.encode(version) == theirs, (version, instance)
        assert message.decode(theirs, version) == instance, version


@every_message
def test_java_reads_our_bytes_as_the_same_values(message: type[Message], oracle: Oracle) -> None:
    for version, instance, data, read in read_by_java(oracle, message, SHAPES):
        assert read.json == kafka_json(instance, version), (version, instance)
        assert read.data == data, (version, instance)
        assert read.remaining == 0


@every_message
def test_java_keeps_the_same_unknown_tags(message: type[Message], oracle: Oracle) -> None:
    shapes = (Shape.EMPTY, Shape.FULL, Shape.DRAWN)
    for version, instance, data, read in read_by_java(oracle, message, shapes, unknown_tags=True):
        again = message.decode(data, version)
        assert again == instance
        assert again.encode(version) == data
        assert read.data == data, (version, instance)
        assert read.remaining == 0


def read_by_java(
    oracle: Oracle, message: type[Message], shapes: tuple[Shape, ...], **options: Any
) -> Iterator[tuple[int, Any, bytes, Any]]:
    name = java_name(message)
    cases = [
        (version, instance, instance.encode(version))
        for version, instance in drawn(message, shapes=shapes, seed=1, **options)
    ]
    answers = oracle.read_messages(
        [MessageBytes(name, version, data) for version, _, data in cases]
    )
    for (version, instance, data), answer in zip(cases, answers, strict=True):
        assert not isinstance(answer, JavaError), (version, instance, answer)
        yield version, instance, data, answer
