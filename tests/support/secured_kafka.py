"""An Apache Kafka behind TLS whose clients authenticate, and of whom one may do nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.oracle.broker import RealKafka
from tests.oracle.jvm import JvmLostError

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
STARTS_MAX = 3
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


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
        return {**plain_settings("", mechanism, user, password), **self.tls()}


def plain_settings(servers: str, mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULE} username="{user}" password="{password}";',
    }


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
    """A Kafka whose clients authenticate, inside of TLS: admin may do everything, me nothing."""
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
        "authorizer.class.name": AUTHORIZER,
        # The controller listener knows nobody by name.
        "super.users": "User:admin;User:ANONYMOUS",
    }
    with _started(folder, overrides) as running:
        yield Secured(running.bootstrap_servers, alone)


def _started(folder: Path, overrides: dict[str, str]) -> RealKafka:
    """A port that was free may be taken a moment later, and then the node ends at its start."""
    for attempt in range(STARTS_MAX - 1):
        with suppress(JvmLostError):
            return RealKafka(folder / f"node-{attempt}", "sasl", **overrides)
    return RealKafka(folder / "node", "sasl", **overrides)
