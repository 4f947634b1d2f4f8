from __future__ import annotations

import asyncio
import time
from hashlib import pbkdf2_hmac
from pathlib import Path

import pytest

from kaa.client.admin.admin import Admin
from kaa.client.errors import KafkaError, SecurityConfigError
from kaa.client.security.oauth import unsecured_token
from kaa.client.security.sasl import Credentials, Mechanism, SaslError, credentials, mechanism_of
from kaa.config.client import admin_values
from kaa.wire.errors import Errors
from kaa.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.support.secured_kafka import MODULE, OAUTH_MODULE, Secured, plain_settings, sasl_kafka
from tests.unit.client.provider import Provider
from tests.unit.client.waiting import until

__all__ = ["sasl_kafka"]

# The broker with SASL is started once, so its tests stay on one worker.
pytestmark = pytest.mark.xdist_group("sasl")


def machine(given: Credentials, nonce: str) -> Mechanism:
    return asyncio.run(mechanism_of(given, nonce))


def test_credentials_from_settings() -> None:
    given = plain_settings("h:1", "PLAIN", "me", 'a\\"b')
    assert credentials(admin_values(given)) == Credentials("PLAIN", "me", 'a"b')
    assert "secret" not in repr(Credentials("PLAIN", "me", "secret"))
    assert credentials(admin_values({"bootstrap.servers": "h:1"})) is None
    with pytest.raises(SecurityConfigError, match="GSSAPI is not supported"):
        credentials(admin_values({**given, "sasl.mechanism": "GSSAPI"}))
    with pytest.raises(SecurityConfigError, match="needs a user; set"):
        credentials(admin_values({**given, "sasl.jaas.config": f"{MODULE};"}))


def test_scram_as_in_rfc_7677() -> None:
    """The exchange that the RFC prints as its example."""
    scram = machine(Credentials("SCRAM-SHA-256", "user", "pencil"), "rOprNGfwEbeRWgbNEkqO")
    assert scram.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    proof = scram.answer(b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    expected = b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert proof == expected
    assert scram.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize(
    "challenge", [b"r=other,s=AAAA,i=4096", b"r=mine,s=AAAA,i=4096", b"r=mine2,s=AAAA,i=1"]
)
def test_server_that_cheats_is_refused(challenge: bytes) -> None:
    with pytest.raises(SaslError):
        machine(Credentials("SCRAM-SHA-256", "user", "p"), "mine").answer(challenge)


def test_server_without_the_password_is_refused() -> None:
    scram = machine(Credentials("SCRAM-SHA-512", "user", "p"), "mine")
    scram.answer(b"r=mine2,s=AAAA,i=4096")
    with pytest.raises(SaslError, match="did not prove that it knows the password"):
        scram.answer(b"v=AAAA")


async def cluster_id(given: dict[str, str]) -> str:
    async with Admin({**given, "default.api.timeout.ms": "10000"}) as admin:
        return (await admin.describe_cluster()).cluster_id


@pytest.mark.oracle
def test_plain(sasl_kafka: Secured) -> None:
    assert asyncio.run(cluster_id(sasl_kafka.user("PLAIN", "me", "mine")))
    with pytest.raises(KafkaError, match="check user name, password") as refused:
        asyncio.run(cluster_id(sasl_kafka.user("PLAIN", "me", "wrong")))
    assert refused.value.error is Errors.SASL_AUTHENTICATION_FAILED


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "number"), [("SCRAM-SHA-256", 1), ("SCRAM-SHA-512", 2)])
def test_scram(sasl_kafka: Secured, name: str, number: int) -> None:
    async def create() -> None:
        salted = pbkdf2_hmac(name[6:].lower().replace("-", ""), b"s3cret", b"salt", 4096)
        upsertion = ScramCredentialUpsertion(
            name="scram,user",
            mechanism=number,
            iterations=4096,
            salt=b"salt",
            salted_password=salted,
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        async with Admin(sasl_kafka.user("PLAIN", "admin", "secret")) as admin:
            response = await admin.cluster.call(request, "credentials", 10_000)
            assert [result.error_code for result in response.results] == [0]
            given = sasl_kafka.user(name, "scram,user", "s3cret")
            for attempt in range(50):
                try:
                    assert await cluster_id(given)
                    break
                except KafkaError:
                    # The broker learns of the credentials after the controller has answered.
                    assert attempt < 49
                    await asyncio.sleep(0.1)
        with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
            await cluster_id(sasl_kafka.user(name, "scram,user", "wrong"))

    asyncio.run(create())


def oauth(secured: Secured, options: str, **more: str) -> dict[str, str]:
    return {
        **secured.tls(),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{OAUTH_MODULE} {options};",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@pytest.mark.oracle
def test_oauthbearer_with_a_token_that_the_client_makes_up(sasl_kafka: Secured) -> None:
    async def run() -> None:
        async with Admin(oauth(sasl_kafka, 'unsecuredLoginStringClaim_sub="me"')) as admin:
            assert (await admin.describe_cluster()).cluster_id
            (node_id,) = await admin._node_ids()
            first = await admin.cluster.connection(node_id)
            assert first.is_open

            # The listener wants clients to authenticate again after two seconds.
            async def is_over() -> bool:
                return first.is_to_be_renewed

            await until(is_over)
            assert await admin.cluster.connection(node_id) is not first
            assert (await admin.describe_cluster()).cluster_id

    asyncio.run(run())
    late = 'unsecuredLoginStringClaim_sub="me" unsecuredLoginLifetimeSeconds="-100"'
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        asyncio.run(cluster_id(oauth(sasl_kafka, late)))


@pytest.mark.oracle
def test_oauthbearer_with_a_token_in_a_file(sasl_kafka: Secured, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(unsecured_token({"unsecuredLoginStringClaim_sub": "me"}, "sub", time.time()))
    given = oauth(sasl_kafka, "", sasl_oauthbearer_token_endpoint_url=file.as_uri())
    assert asyncio.run(cluster_id(given))


@pytest.mark.oracle
def test_oauthbearer_with_a_token_of_a_provider(sasl_kafka: Secured) -> None:
    with Provider() as provider:
        given = oauth(
            sasl_kafka,
            'clientId="me" clientSecret="s" extension_traceId="x"',
            sasl_oauthbearer_token_endpoint_url=provider.url,
        )
        assert asyncio.run(cluster_id(given))
        assert len(provider.forms) == 1
