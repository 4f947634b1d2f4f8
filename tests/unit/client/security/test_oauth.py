from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from kaa.client.errors import AuthenticationError, SecurityConfigError
from kaa.client.security.oauth import Bearer, Token, TokenSource, expiry_of, unsecured_token
from kaa.config.client import admin_values
from tests.unit.client.provider import Provider


def source(options: dict[str, str], **settings: str) -> TokenSource:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    values = admin_values(
        {
            "bootstrap.servers": "h:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.retry.backoff.ms": "1",
            **given,
        }
    )
    return TokenSource(values, options)


def test_messages_are_those_of_the_rfc() -> None:
    exchange = Bearer("abc", {"traceId": "1"})
    assert exchange.start() == b"n,,\x01auth=Bearer abc\x01traceId=1\x01\x01"
    assert exchange.answer(b"") is None
    assert exchange.answer(b'{"status":"invalid_token"}') == b"\x01"
    assert Bearer("abc", {}).start() == b"n,,\x01auth=Bearer abc\x01\x01"


def test_unsecured_token_has_the_claims_of_the_options() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "me",
        "unsecuredLoginListClaim_scope": ",a,b",
        "unsecuredLoginNumberClaim_n": "3",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    token = unsecured_token(options, "sub", 1000.0)
    assert token.endswith(".")
    assert expiry_of(token) == 1060.0
    assert expiry_of("opaque") is None
    assert expiry_of("a.b.c") is None


def test_token_is_used_for_most_of_its_time() -> None:
    token = Token.got("secret", 200.0, 100.0, 7.0)
    assert token.is_fresh(179.0, 86.9)
    assert not token.is_fresh(180.0, 87.0)
    assert Token.got("x", None, 0.0, 0.0).is_fresh(1e12, 1e12)
    assert "secret" not in repr(token)


def test_token_has_its_time_whatever_becomes_of_the_date() -> None:
    """Set back by an hour, or asleep while the other clock stands still."""
    token = Token.got("secret", 200.0, 100.0, 7.0)
    assert not token.is_fresh(180.0 - 3600.0, 87.0)
    assert not token.is_fresh(200.0, 8.0)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(SecurityConfigError, match="unsecuredLoginStringClaim_sub"):
        source({})
    with pytest.raises(SecurityConfigError, match="neither http"):
        source({}, sasl_oauthbearer_token_endpoint_url="ftp://h/token")
    with pytest.raises(SecurityConfigError, match="SASL extension"):
        source({"unsecuredLoginStringClaim_sub": "me", "unsecuredLoginExtension_a1": "x"})
    lonely = source({}, sasl_oauthbearer_token_endpoint_url="http://127.0.0.1:1/token")
    with pytest.raises(SecurityConfigError, match="clientId and clientSecret"):
        asyncio.run(lonely.token())


def test_provider_is_asked_once() -> None:
    with Provider() as provider:
        provider.failures = 1
        one = source(
            {"clientId": "jaas", "scope": "s"},
            sasl_oauthbearer_token_endpoint_url=provider.url,
            sasl_oauthbearer_client_credentials_client_id="me",
            sasl_oauthbearer_client_credentials_client_secret="a+b",
            sasl_oauthbearer_header_urlencode="true",
        )

        async def run() -> list[str]:
            return [await one.token(), await one.token()]

        first, second = asyncio.run(run())
        assert first == second
        assert provider.users == ["me:a%2Bb"] * 2
        assert provider.forms[-1] == {"grant_type": ["client_credentials"], "scope": ["s"]}


def test_provider_that_refuses_or_babbles_or_is_away() -> None:
    options = {"clientId": "me", "clientSecret": "wrong"}
    with Provider() as provider:
        address = provider.url
        with pytest.raises(AuthenticationError, match=r"401.*check client id"):
            asyncio.run(source(options, sasl_oauthbearer_token_endpoint_url=address).token())
        assert len(provider.users) == 1
        right = {**options, "clientSecret": "right"}
        for answer, words in ((b"no json", "without an access_token"), (b"[]", "without an")):
            provider.answer = answer
            with pytest.raises(AuthenticationError, match=words):
                asyncio.run(source(right, sasl_oauthbearer_token_endpoint_url=address).token())
        provider.answer = b'{"access_token": "with blanks"}'
        with pytest.raises(AuthenticationError, match="did not give a token"):
            asyncio.run(source(right, sasl_oauthbearer_token_endpoint_url=address).token())
    with pytest.raises(AuthenticationError, match="that the provider runs"):
        asyncio.run(source(right, sasl_oauthbearer_token_endpoint_url=address).token())


def test_provider_over_https(tmp_path: Path) -> None:
    """It is trusted by the certificates of ssl.truststore, and by nothing else."""
    key, alone, both = (tmp_path / name for name in ("key.pem", "alone.pem", "both.pem"))
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
    names = ["subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(alone)]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    both.write_text(key.read_text() + alone.read_text())
    options = {"clientId": "me", "clientSecret": "right"}
    with Provider(both) as provider:
        assert provider.url.startswith("https://")
        trusting = source(
            options,
            sasl_oauthbearer_token_endpoint_url=provider.url,
            ssl_truststore_type="PEM",
            ssl_truststore_location=str(alone),
        )
        assert expiry_of(asyncio.run(trusting.token())) is not None
        assert provider.users == ["me:right"]
        wary = source(options, sasl_oauthbearer_token_endpoint_url=provider.url)
        with pytest.raises(AuthenticationError, match=r"(?i)certificate.*ssl\.truststore"):
            asyncio.run(wary.token())
        assert len(provider.users) == 1


def test_file(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    file.write_text("abc\n")
    one = source({}, sasl_oauthbearer_token_endpoint_url=file.as_uri())
    assert asyncio.run(one.token()) == "abc"
    absent = source({}, sasl_oauthbearer_token_endpoint_url="file:///nowhere")
    with pytest.raises(AuthenticationError, match="cannot read the token"):
        asyncio.run(absent.token())
