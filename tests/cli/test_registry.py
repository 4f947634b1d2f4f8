from __future__ import annotations

import asyncio
import io
import json
import socket
import time
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from click.testing import CliRunner, Result

from kaa.cli.registry import JsonBytes, RegistryDecoder, RegistryFailedError, decoder_of
from kaa.cli.root import root
from kaa.client.consumer.records import ConsumerRecord
from kaa.client.producer.producer import Producer
from kaa.spark.formats.registry import RegistryClient, RegistrySettings
from kaa.testing.registry import Registry
from tests.support.broker_process import BrokerProcess
from tests.support.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": "string"},
        {"name": "paid", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "raw", "type": "bytes"},
    ],
}
SHOWN = {
    "id": 7,
    "item": "lamp",
    "paid": "1970-01-01T00:00:01+00:00",
    "tags": {"a": 1},
    "raw": {"base64": "/w=="},
}
PROTO = """syntax = "proto3";
message Other { int32 x = 1; }
message Order { int64 id = 1; string item = 2; }
"""


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def decoder(registry: Registry, **settings: str) -> RegistryDecoder:
    return RegistryDecoder(RegistryClient(RegistrySettings((registry.url,), **settings)))


def test_each_kind_of_schema() -> None:
    with Registry() as registry:
        order = {"id": 7, "item": "lamp", "paid": 1000, "tags": {"a": 1}, "raw": b"\xff"}
        of_avro = registry.register("o-value", json.dumps(ORDER))
        of_key = registry.register("o-key", '"string"')
        of_json = registry.register("j-value", '{"type": "object"}', kind="JSON")
        of_proto = registry.register("p-value", PROTO, kind="PROTOBUF")
        found = decoder(registry)
        value = found.decoded(registry.frame(of_avro, avro(ORDER, order)))
        assert isinstance(value, JsonBytes)
        assert json.loads(value) == SHOWN
        assert found.decoded(registry.frame(of_key, avro("string", "k"))) == b'"k"'
        assert found.decoded(registry.frame(of_json, b'{"a": [1]}')) == b'{"a": [1]}'
        # The path to the second message: one index, which is 1; both as zigzag numbers.
        message = bytes([2, 2, 0x08, 7, 0x12, 4]) + b"lamp"
        shown = json.loads(found.decoded(registry.frame(of_proto, message)) or b"")
        assert shown == {"id": 7, "item": "lamp"}
        assert found.summary() is None
        asked = len(registry.requests)
        found.decoded(registry.frame(of_avro, avro(ORDER, order)))
        assert len(registry.requests) == asked


def test_what_has_no_schema_stays_as_it_is() -> None:
    with Registry() as registry:
        found = decoder(registry)
        for data in (None, b"", b"plain", b"\0\0", b"\0\0\0\0\x09unknown"):
            assert found.decoded(data) is data
        assert found.summary() is None


def test_what_does_not_fit_its_schema_is_counted() -> None:
    with Registry() as registry:
        found = decoder(registry)
        number = registry.register("o-value", json.dumps(ORDER))
        bad = registry.frame(number, b"\x80")
        assert found.records([ConsumerRecord("t", 0, 0, 0, None, bad)])[0].value is bad
        assert f"keys and values that were not decoded: 1; the first: schema {number}: " in (
            found.summary() or ""
        )


def test_a_registry_that_is_not_there_or_refuses() -> None:
    nowhere = RegistryClient(RegistrySettings((f"http://{LOOPBACK}:{free_port()}",)))
    with pytest.raises(RegistryFailedError):
        RegistryDecoder(nowhere).decoded(b"\0\0\0\0\x01")
    with Registry(basic_auth="me:secret") as registry:
        number = registry.register("j-value", "{}", kind="JSON")
        framed = registry.frame(number, b"1")
        with pytest.raises(RegistryFailedError) as refused:
            decoder(registry).decoded(framed)
        assert "secret" not in str(refused.value)
        given = {"schema.registry.url": registry.url, "basic.auth.user.info": "me:secret"}
        trusted = decoder_of(given, None)
        assert trusted is not None
        assert trusted.decoded(framed) == b"1"


@pytest.fixture
def silent_url() -> Iterator[str]:
    """Somebody who accepts connections and never answers."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"


FRAMED = ConsumerRecord("t", 0, 0, 0, None, b"\0\0\0\0\x01")


def test_a_registry_that_never_answers_has_the_time_of_the_command(silent_url: str) -> None:
    impatient = decoder_of({}, silent_url, "300")
    assert impatient is not None
    with pytest.raises(RegistryFailedError, match="does not answer for /schemas/ids/1: timed out"):
        asyncio.run(impatient.decode([FRAMED]))


def test_a_command_ends_while_a_registry_does_not_answer(silent_url: str) -> None:
    patient = decoder_of({}, silent_url)
    assert patient is not None
    started = time.monotonic()

    async def interrupted() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(patient.decode([FRAMED]), 0.2)

    asyncio.run(interrupted())
    assert time.monotonic() - started < 20


def test_nothing_is_decoded_unless_asked() -> None:
    assert decoder_of({}, None) is None
    answer = CliRunner().invoke(root, ["consume", "x", "--registry", "localhost:8081"])
    assert answer.exit_code == 2
    assert "write http://host:8081" in answer.stderr


def test_consume_and_tail_show_what_was_written(kaa_node: BrokerProcess, topic_name: str) -> None:
    servers = kaa_node.bootstrap_servers

    def kaa(*arguments: str) -> Result:
        answer = CliRunner().invoke(root, [*arguments, "-b", servers])
        assert answer.exit_code == 0, answer.output
        return answer

    with Registry() as registry:
        order = {"id": 7, "item": "lamp", "paid": 1000, "tags": {"a": 1}, "raw": b"\xff"}
        number = registry.register(f"{topic_name}-value", json.dumps(ORDER))
        framed = registry.frame(number, avro(ORDER, order))
        write(servers, topic_name, framed)
        url = ("--registry", registry.url)
        (row,) = json.loads(kaa("consume", topic_name, "-e", "-o", "json", *url).stdout)
        assert row["key"] == "plain"
        assert row["value"] == SHOWN
        text = kaa("consume", topic_name, "-e", "-f", "%k %s", *url).stdout
        assert text.startswith('plain {"id": 7, "item": "lamp"')
        shape = "template={value[item]} {value[tags][a]}"
        assert kaa("consume", topic_name, "-e", "-o", shape, *url).stdout == "lamp 1\n"
        seen = kaa("tail", topic_name, "--from", "start", "-n", "1", *url).stdout
        assert '"item": "lamp"' in seen
        # What --grep looks at is what is shown.
        hit = kaa("consume", topic_name, "-e", "--grep", '"id": 7', "-o", "name", *url).stdout
        assert hit == f"{topic_name}-0@0\n"
        by_setting = ("-X", f"schema.registry.url={registry.url}")
        answer = kaa("consume", topic_name, "-e", "-o", "jsonl", *by_setting)
        assert json.loads(answer.stdout)["value"] == SHOWN
        assert "no client of Kafka has" not in answer.stderr


def write(servers: str, topic: str, value: bytes) -> None:
    async def send() -> None:
        async with Producer({"bootstrap.servers": servers}) as producer:
            await producer.send(topic, value, key=b"plain")
            await producer.flush()

    asyncio.run(send())
