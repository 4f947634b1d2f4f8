from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kaa.client.errors import SecurityConfigError
from kaa.client.settings import client_values
from kaa.config.client import PRODUCER, producer_values
from kaa.config.definition import InvalidConfigError

SERVERS = {"bootstrap.servers": "localhost:9092"}


def test_a_slip_is_a_warning_with_a_suggestion(caplog: pytest.LogCaptureFixture) -> None:
    client_values(PRODUCER, producer_values, {**SERVERS, "linger.mss": 5}, {})
    (record,) = caplog.records
    assert record.name == "kaa.client.settings"
    assert record.levelno == logging.WARNING
    assert "linger.mss; did you mean linger.ms?" in record.getMessage()


def test_settings_of_another_client_are_no_slip(caplog: pytest.LogCaptureFixture) -> None:
    client_values(PRODUCER, producer_values, {**SERVERS, "group.id": "g"}, {})
    assert [one for one in caplog.records if one.levelno >= logging.INFO] == []


def test_a_slip_in_what_is_needed_is_told_before_the_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(InvalidConfigError, match=r"bootstrap\.servers"):
        client_values(PRODUCER, producer_values, {"boostrap.servers": "localhost:9092"}, {})
    assert "did you mean bootstrap.servers?" in caplog.text


def test_names_as_keywords_win() -> None:
    values, functions = client_values(
        PRODUCER,
        producer_values,
        {**SERVERS, "linger.ms": 5},
        {"linger_ms": 7, "value_serializer": str.encode},
    )
    assert values.get_int("linger.ms") == 7
    assert functions == {"value.serializer": str.encode}


def test_settings_must_be_a_dictionary() -> None:
    with pytest.raises(TypeError, match=r"settings are a dictionary .* not a str"):
        client_values(PRODUCER, producer_values, "localhost:9092", {})  # type: ignore[arg-type]


def test_key_and_certificate_in_two_files(tmp_path: Path) -> None:
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_text("the chain")
    key.write_text("the key")
    given = {**SERVERS, "ssl.certificate.location": chain, "ssl.key.location": key}
    values, _ = client_values(PRODUCER, producer_values, given, {})
    found = values.get_password("ssl.keystore.key")
    assert found is not None
    assert found.reveal() == "the key"
    assert values.get_string("ssl.keystore.type") == "PEM"


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    given = {**SERVERS, "ssl.key.location": tmp_path / "key.pem"}
    with pytest.raises(SecurityConfigError, match=r"set ssl\.certificate\.location"):
        client_values(PRODUCER, producer_values, given, {})
    given["ssl.certificate.location"] = tmp_path / "none.pem"
    with pytest.raises(SecurityConfigError, match=r"cannot read .*none\.pem"):
        client_values(PRODUCER, producer_values, given, {})
