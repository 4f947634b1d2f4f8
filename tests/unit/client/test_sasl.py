from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from hashlib import pbkdf2_hmac
from pathlib import Path
from typing import NamedTuple

import pytest

from kaa.client.admin import Admin
from kaa.client.errors import KafkaError, SecurityConfigError
from kaa.client.oauth import unsecured_token
from kaa.client.sasl import Credentials, Mechanism, SaslError, credentials, mechanism_of
from kaa.config.client import admin_values
from kaa.wire.errors import Errors
from kaa.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.oracle.broker import RealKafka
from tests.unit.client.provider import Provider
from tests.unit.client.waiting import until

# The broker with SASL is started once, so its tests stay on one worker.
pytestmark = pytest.mark.xdist_group("sasl")

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


class Secured(NamedTuple):
    """A cluster with TLS, and the file with the certificate that its clients trust."""

    servers: str
    certificate: Path

    def tls(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificate),
            "default.api.timeout.ms": "10000",
        }

    def user(self, mechanism: str, user: str, password: str) -> dict[str, str]:
        return {**settings("", mechanism, user, password), **self.tls()}


def settings(servers: str, mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULE} username="{user}" password="{password}";',
    }


def machine(given: Credentials, nonce: str) -> Mechanism:
    return asyncio.run(mechanism_of(given, nonce))


def test_credentials_from_settings() -> None:
    given = settings("h:1", "PLAIN", "me", 'a\\"b')
    assert credentials(admin_values(given)) == Credentials("PLAIN", "me", 'a"b')
    assert "secret" not in repr(Credentials("PLAIN", "me", "secret"))
    assert credentials(admin_values({"bootstrap.servers": "h:1"})) is None
    with pytest.raises(SecurityConfigError, match="GSSAPI is not supported"):
        credentials(admin_values({**given, "sasl.mechanism": "GSSAPI"}))
    with pytest.raises(SecurityConfigError, match="must name a user"):
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
    with pytest.raises(SaslError, match="does not know the password"):
        scram.answer(b"v=AAAA")


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for the loopback address that signs itself, alone and with its key."""
    key, alone, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
    names = ["subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(alone)]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    both.write_text(key.read_text() + alone.read_text())
    return alone, both


@pytest.fixture(scope="module")
def sasl_kafka(
    tmp_path_factory: pytest.TempPathFactory, real_kafka: RealKafka
) -> Iterator[Secured]:
    """A Kafka whose clients authenticate, inside of TLS."""
    folder: Path = tmp_path_factory.mktemp("sasl")
    alone, both = certificate(folder)
    users = f'{MODULE} username="admin" password="secret" user_admin="secret" user_me="mine";'
    scram = users.replace("plain.PlainLoginModule", "scram.ScramLoginModule")
    listener = "listener.name.plaintext"
    overrides = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{listener}.plain.sasl.jaas.config": users,
        f"{listener}.scram-sha-256.sasl.jaas.config": scram,
        f"{listener}.scram-sha-512.sasl.jaas.config": scram,
        f"{listener}.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} "
        'unsecuredLoginStringClaim_sub="admin";',
        f"{listener}.oauthbearer.connections.max.reauth.ms": "2000",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(alone),
    }
    with RealKafka(folder / "node", "sasl", **overrides) as running:
        yield Secured(running.bootstrap_servers, alone)


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
