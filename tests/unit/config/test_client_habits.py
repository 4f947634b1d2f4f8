from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kaa.config.client import ADMIN, CONSUMER, PRODUCER, consumer_values, producer_values
from kaa.config.client_habits import (
    config_text,
    is_known,
    kafka_name,
    read_settings,
    unknown_text,
    with_ports,
)
from kaa.config.definition import InvalidConfigError

SERVERS = {"bootstrap.servers": "localhost:9092"}


def test_numbers_lists_and_truth_are_texts() -> None:
    given = {
        "bootstrap.servers": ["a:9092", "b:9093"],
        "linger.ms": 5,
        "batch.size": 2.0,
        "enable.idempotence": True,
        "client.id": None,
    }
    values = producer_values(read_settings(PRODUCER, given).texts)
    assert values.get_list("bootstrap.servers") == ("a:9092", "b:9093")
    assert values.get_int("linger.ms") == 5
    assert values.get_int("batch.size") == 2
    assert values.get_boolean("enable.idempotence")
    assert values.get_string("client.id") == ""


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (("127.0.0.1", 29092), "127.0.0.1:29092"),
        (["a", ("b", 29092), ["c", 1]], "a:9092,b:29092,c:1"),
        ([("::1", 29092), ("[::2]", 1)], "[::1]:29092,[::2]:1"),
        (("a", "b:1"), "a:9092,b:1"),
    ],
)
def test_a_server_may_be_a_pair(given: object, meant: str) -> None:
    assert read_settings(ADMIN, {"bootstrap.servers": given}).texts["bootstrap.servers"] == meant


@pytest.mark.parametrize("given", [29092, "29092", True, 5.5, ["a:1", 29092], ("a", 1, "b")])
def test_a_number_is_no_server(given: object) -> None:
    with pytest.raises(InvalidConfigError, match="give HOST:PORT as text, or a list of these or"):
        read_settings(ADMIN, {"bootstrap.servers": given})


@pytest.mark.parametrize("name", ["group.id", "client.id", "group.instance.id", "client.rack"])
@pytest.mark.parametrize(
    ("given", "hint"),
    [("x" * 32_768, "has 32,768 bytes"), ("é" * 16_384, "32,767 at most"), ("\ud800", "surrogate")],
    ids=["long", "wide", "half"],
)
def test_what_no_request_can_carry_is_refused(name: str, given: str, hint: str) -> None:
    with pytest.raises(InvalidConfigError, match=hint):
        read_settings(CONSUMER, {**SERVERS, name: given})


def test_the_longest_group_id() -> None:
    assert read_settings(CONSUMER, {**SERVERS, "group.id": "x" * 32_767}).texts["group.id"]


def test_paths_are_texts() -> None:
    given = {**SERVERS, "ssl.truststore.location": Path("ca.pem")}
    assert read_settings(ADMIN, given).texts["ssl.truststore.location"] == "ca.pem"


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ({"a": 1}, "is a dict; give text, a number"),
        (b"5", "give text, not bytes"),
        (len, "may be functions"),
        ([object()], "is a list; give text, a number"),
    ],
)
def test_other_values_are_refused_with_a_hint(value: object, hint: str) -> None:
    with pytest.raises(InvalidConfigError, match=hint):
        read_settings(PRODUCER, {**SERVERS, "linger.ms": value})


def test_names_of_librdkafka() -> None:
    given = {
        "metadata.broker.list": "a:9092",
        "queue.buffering.max.ms": 7,
        "message.timeout.ms": 50_000,
        "request.timeout.ms": 1000,
        "compression.codec": "zstd",
        "ssl.ca.location": "ca.pem",
    }
    values = producer_values(read_settings(PRODUCER, given).texts)
    assert values.get_list("bootstrap.servers") == ("a:9092",)
    assert values.get_int("linger.ms") == 7
    assert values.get_int("delivery.timeout.ms") == 50_000
    assert values.get_string("compression.type") == "zstd"
    assert values.get_string("ssl.truststore.location") == "ca.pem"
    assert values.get_string("ssl.truststore.type") == "PEM"


@pytest.mark.parametrize(
    ("word", "meant"), [("smallest", "earliest"), ("beginning", "earliest"), ("end", "latest")]
)
def test_words_of_librdkafka(word: str, meant: str) -> None:
    texts = read_settings(CONSUMER, {**SERVERS, "auto.offset.reset": word}).texts
    assert consumer_values(texts).get_string("auto.offset.reset") == meant


def test_keyword_names() -> None:
    texts = read_settings(CONSUMER, {"bootstrap_servers": "a:1", "group_id": "g"}).texts
    assert texts == {"bootstrap.servers": "a:1", "group.id": "g"}
    assert kafka_name("max_poll_records") == "max.poll.records"


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [(None, "PlainLoginModule"), ("PLAIN", "PlainLoginModule"), ("SCRAM-SHA-256", "Scram")],
)
def test_user_and_password(mechanism: str | None, module: str) -> None:
    given = {
        **SERVERS,
        "sasl.username": "me",
        "sasl.password": 'a"\\b',
        "sasl.mechanisms": mechanism,
    }
    texts = read_settings(PRODUCER, given).texts
    assert module in texts["sasl.jaas.config"]
    assert r'username="me" password="a\"\\b";' in texts["sasl.jaas.config"]
    assert texts["sasl.mechanism"] == (mechanism or "PLAIN")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"sasl.username": "me"}, "set sasl.password"),
        ({"sasl.password": "secret"}, "set sasl.username"),
        (
            {"sasl.username": "a", "sasl.password": "b", "sasl.jaas.config": "x"},
            "Set either sasl.jaas.config or",
        ),
        (
            {"sasl.username": "a", "sasl.password": "b", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.mechanism is OAUTHBEARER",
        ),
    ],
)
def test_half_a_login_is_refused(given: dict[str, str], hint: str) -> None:
    with pytest.raises(InvalidConfigError, match=hint):
        read_settings(PRODUCER, {**SERVERS, **given})


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("broker", "broker:9092"),
        ("a:1, b", "a:1,b:9092"),
        ("PLAINTEXT://broker", "PLAINTEXT://broker:9092"),
        ("PLAINTEXT://broker:7", "PLAINTEXT://broker:7"),
        ("[::1]", "[::1]:9092"),
        ("[::1]:7", "[::1]:7"),
    ],
)
def test_servers_without_a_port_have_the_usual_one(written: str, read: str) -> None:
    assert with_ports(written) == read
    texts = read_settings(PRODUCER, {"bootstrap.servers": written}).texts
    assert texts["bootstrap.servers"] == read


def test_slips_are_reported_with_what_was_meant() -> None:
    found = read_settings(PRODUCER, {**SERVERS, "linger.mss": "5", "group.id": "g"})
    assert found.unknown == ("linger.mss",)
    assert found.foreign == ("group.id",)
    assert unknown_text("linger.mss").endswith("did you mean linger.ms?")
    assert unknown_text("zzz") == "no client of Kafka has a setting zzz"
    assert is_known("sasl.username")
    assert is_known("group_id")
    assert not is_known("linger.mss")


def test_functions_serialise() -> None:
    found = read_settings(PRODUCER, {**SERVERS, "value.serializer": str.encode})
    assert found.callables == {"value.serializer": str.encode}
    assert "value.serializer" not in found.texts


def test_values_of_topics() -> None:
    assert config_text("retention.ms", 1000) == "1000"
    assert config_text("cleanup.policy", ["compact", "delete"]) == "compact,delete"
    assert config_text("retention.ms", None) is None
    with pytest.raises(InvalidConfigError, match=r"retention.ms is a dict"):
        config_text("retention.ms", {})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ssl.ca.location", "ssl.truststore.type"),
        ("ssl_ca_location", "ssl.truststore.type"),
        ("ssl_ca_pem", "ssl.truststore.type"),
        ("ssl_certificate_pem", "ssl.keystore.type"),
        ("ssl_key_pem", "ssl.keystore.type"),
    ],
)
def test_names_of_librdkafka_say_that_it_is_pem_in_both_spellings(name: str, kind: str) -> None:
    assert read_settings(ADMIN, {**SERVERS, name: "x"}).texts[kind] == "PEM"
    given = {**SERVERS, name: "x", kind: "JKS"}
    assert read_settings(ADMIN, given).texts[kind] == "JKS"


@pytest.mark.parametrize("name", [5, b"client.id", None, ("a", "b")])
def test_names_are_text(name: Any) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        read_settings(PRODUCER, {**SERVERS, name: "1"})
    expected = f"Names of settings are text, as 'client.id'; {name!r} is of type "
    assert expected in str(refused.value)
