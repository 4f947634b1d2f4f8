"""Listeners, voters and addresses as text."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.config.addresses import (
    ListenerText,
    Voter,
    is_loopback,
    is_wildcard,
    parse_host_port,
    parse_listener,
    parse_voter,
)
from kaa.config.values import ConfigError
from kaa.model.nodes import Endpoint, HostPort, SecurityProtocol


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://localhost:9092", ("PLAINTEXT", "localhost", 9092)),
        ("plaintext://:0", ("PLAINTEXT", "", 0)),
        ("MY_NAME-1://10.0.0.1:1", ("MY_NAME-1", "10.0.0.1", 1)),
        ("A://[::1]:9092", ("A", "::1", 9092)),
        ("A://::1:9092", ("A", "::1", 9092)),
        (
            "A://[fe80::b1da:69ca:57f7:63d8%eth0]:9092",
            ("A", "fe80::b1da:69ca:57f7:63d8%eth0", 9092),
        ),
        ("A://0.0.0.0:65535", ("A", "0.0.0.0", 65535)),
    ],
)
def test_listener(text: str, listener: tuple[str, str, int]) -> None:
    assert parse_listener("listeners", text) == ListenerText(*listener)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:9092",
        "A:/localhost:9092",
        "A://localhost",
        "A://localhost:",
        "A://localhost:x",
        "A://localhost:-1",
        "A://localhost:65536",
        "A://localhost:99999999999999999999",
        "A://local host:9092",
        "://localhost:9092",
        " ://localhost:9092",
        "A://localhost:9092/path",
        "A://ctl..example:9092",
    ],
)
def test_no_listener(text: str) -> None:
    with pytest.raises(ConfigError, match="listeners"):
        parse_listener("listeners", text)


def test_voters() -> None:
    assert parse_voter("voters", "1@host:9093") == Voter(1, "host", 9093)
    assert parse_voter("voters", "+2@[::1]:0") == Voter(2, "::1", 0)
    for text in ("host:9093", "1@host", "x@host:1", "1@2@host:1", "9999999999@h:1", "@h:1", ""):
        with pytest.raises(ConfigError, match="voters"):
            parse_voter("voters", text)


def test_host_and_port() -> None:
    form = "{host}:{port}"
    assert parse_host_port("servers", "h", "h:1", form) == HostPort("h", 1)
    assert parse_host_port("servers", "h", "SSL://h:1", form) == HostPort("h", 1)
    assert str(HostPort("::1", 9)) == "[::1]:9"
    assert str(HostPort("h", 9)) == "h:9"
    with pytest.raises(ConfigError, match="servers"):
        parse_host_port("servers", "h:70000", "h:70000", form)


def test_an_endpoint_is_written_as_it_is_read() -> None:
    endpoint = Endpoint("A", "::1", 9092, SecurityProtocol.PLAINTEXT)
    assert str(endpoint) == "A://[::1]:9092"
    assert parse_listener("listeners", str(endpoint)) == ("A", "::1", 9092)


@given(st.text())
def test_hostile_text_gives_a_config_error_at_most(text: str) -> None:
    for parse in (parse_listener, parse_voter):
        with suppress(ConfigError):
            assert parse("name", text).port in range(65_536)


def test_addresses_that_are_only_for_listening_or_only_for_this_machine() -> None:
    for host in ("0.0.0.0", "::", "0:0:0:0:0:0:0:0", "0"):
        assert is_wildcard(host)
        assert not is_loopback(host)
    for host in ("127.0.0.1", "127.1.2.3", "::1", "0:0:0:0:0:0:0:1", "localhost", "LocalHost"):
        assert is_loopback(host)
        assert not is_wildcard(host)
    for host in ("", "10.0.0.1", "1", "::2", "2001:db8::1", "one.example", "localhost.example"):
        assert not is_wildcard(host)
        assert not is_loopback(host)


@pytest.mark.parametrize("host", ["ctl..example", ".example", ".", "x" * 64, f"a.{'x' * 64}.b"])
def test_a_label_of_a_name_has_1_to_63_characters(host: str) -> None:
    with pytest.raises(ConfigError, match=r"listeners.*1 to 63 characters between its dots"):
        parse_listener("listeners", f"A://{host}:1")
    with pytest.raises(ConfigError, match=r"voters.*1 to 63 characters between its dots"):
        parse_voter("voters", f"1@{host}:1")
    with pytest.raises(ConfigError, match=r"servers.*1 to 63 characters between its dots"):
        parse_host_port("servers", f"{host}:1", f"{host}:1", "host:port")


@pytest.mark.parametrize("host", ["example.", "x" * 63, f"fe80::1%{'x' * 64}", ""])
def test_every_other_name_is_taken(host: str) -> None:
    assert parse_listener("listeners", f"A://{host}:1").host == host
