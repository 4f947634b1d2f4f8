from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import pbkdf2_hmac
from pathlib import Path

import pytest

from kaa.client.admin import Admin
from kaa.client.errors import KafkaError, SecurityConfigError
from kaa.client.sasl import Credentials, SaslError, credentials, mechanism_of
from kaa.config.client import admin_values
from kaa.wire.errors import Errors
from kaa.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.oracle.broker import RealKafka

# The broker with SASL is started once, so its tests stay on one worker.
pytestmark = pytest.mark.xdist_group("sasl")

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def settings(servers: str, mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULE} username="{user}" password="{password}";',
    }


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
    scram = mechanism_of(Credentials("SCRAM-SHA-256", "user", "pencil"), "rOprNGfwEbeRWgbNEkqO")
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
        mechanism_of(Credentials("SCRAM-SHA-256", "user", "p"), "mine").answer(challenge)


def test_server_without_the_password_is_refused() -> None:
    scram = mechanism_of(Credentials("SCRAM-SHA-512", "user", "p"), "mine")
    scram.answer(b"r=mine2,s=AAAA,i=4096")
    with pytest.raises(SaslError, match="does not know the password"):
        scram.answer(b"v=AAAA")


@pytest.fixture(scope="module")
def sasl_kafka(tmp_path_factory: pytest.TempPathFactory, real_kafka: RealKafka) -> Iterator[str]:
    """A Kafka whose clients authenticate."""
    users = f'{MODULE} username="admin" password="secret" user_admin="secret" user_me="mine";'
    overrides = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": users,
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": users.replace(
            "plain.PlainLoginModule", "scram.ScramLoginModule"
        ),
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": users.replace(
            "plain.PlainLoginModule", "scram.ScramLoginModule"
        ),
    }
    folder: Path = tmp_path_factory.mktemp("sasl")
    with RealKafka(folder, "sasl", **overrides) as running:
        yield running.bootstrap_servers


async def cluster_id(given: dict[str, str]) -> str:
    async with Admin({**given, "default.api.timeout.ms": "10000"}) as admin:
        return (await admin.describe_cluster()).cluster_id


@pytest.mark.oracle
def test_plain(sasl_kafka: str) -> None:
    assert asyncio.run(cluster_id(settings(sasl_kafka, "PLAIN", "me", "mine")))
    with pytest.raises(KafkaError, match="check user name, password") as refused:
        asyncio.run(cluster_id(settings(sasl_kafka, "PLAIN", "me", "wrong")))
    assert refused.value.error is Errors.SASL_AUTHENTICATION_FAILED


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "number"), [("SCRAM-SHA-256", 1), ("SCRAM-SHA-512", 2)])
def test_scram(sasl_kafka: str, name: str, number: int) -> None:
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
        async with Admin(settings(sasl_kafka, "PLAIN", "admin", "secret")) as admin:
            response = await admin.cluster.call(request, "credentials", 10_000)
            assert [result.error_code for result in response.results] == [0]
            given = settings(sasl_kafka, name, "scram,user", "s3cret")
            for attempt in range(50):
                try:
                    assert await cluster_id(given)
                    break
                except KafkaError:
                    # The broker learns of the credentials after the controller has answered.
                    assert attempt < 49
                    await asyncio.sleep(0.1)
        with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
            await cluster_id(settings(sasl_kafka, name, "scram,user", "wrong"))

    asyncio.run(create())
