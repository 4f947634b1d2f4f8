from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest

from kaa.client.admin.admin import Admin
from kaa.client.errors import SecurityConfigError, UntrustedError
from kaa.client.security.tls import tls_context
from kaa.config.client import admin_values
from tests.support.certificates import self_signed

BASE = {"bootstrap.servers": "localhost:9092"}


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key with a certificate for localhost that signs itself, both in one file."""
    folder = tmp_path_factory.mktemp("pem")
    key, certificate = self_signed(folder)
    both = folder / "both.pem"
    both.write_text(key.read_text() + certificate.read_text())
    return both


def context(**settings: str) -> ssl.SSLContext | None:
    values = {name.replace("_", "."): value for name, value in settings.items()}
    return tls_context(admin_values({**BASE, **values}))


def test_plaintext_has_no_context() -> None:
    assert context() is None


def test_java_key_stores_are_refused_with_a_hint(tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(SecurityConfigError, match=r"keytool.*ssl\.truststore\.type=PKCS12"):
        context(security_protocol="SSL", ssl_truststore_location=str(store))


def test_pkcs12_files(pem: Path, tmp_path: Path) -> None:
    """As openssl and Java's keytool write them; Java calls them JKS unless told otherwise."""
    store = tmp_path / "store.p12"
    command = ["openssl", "pkcs12", "-export", "-in", str(pem), "-passout", "pass:secret"]
    subprocess.run([*command, "-out", str(store)], check=True, capture_output=True)
    files = context(
        security_protocol="SSL",
        ssl_truststore_location=str(store),
        ssl_truststore_password="secret",
        ssl_keystore_type="PKCS12",
        ssl_keystore_location=str(store),
        ssl_keystore_password="secret",
    )
    assert files is not None
    assert len(files.get_ca_certs()) == 1
    with pytest.raises(SecurityConfigError, match=r"check ssl\.keystore\.password"):
        context(
            security_protocol="SSL",
            ssl_keystore_type="PKCS12",
            ssl_keystore_location=str(store),
            ssl_keystore_password="wrong",
        )


def test_pem_files_and_pem_text(pem: Path) -> None:
    files = context(
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(pem),
        ssl_keystore_type="PEM",
        ssl_keystore_location=str(pem),
    )
    assert files is not None
    assert files.check_hostname
    assert len(files.get_ca_certs()) == 1
    text = pem.read_text()
    cut = text.index("-----BEGIN CERTIFICATE-----")
    texts = context(
        security_protocol="SSL",
        ssl_truststore_certificates=text[cut:],
        ssl_keystore_key=text[:cut],
        ssl_keystore_certificate_chain=text[cut:],
        ssl_endpoint_identification_algorithm="",
    )
    assert texts is not None
    assert not texts.check_hostname
    with pytest.raises(SecurityConfigError, match="cannot use the files"):
        context(
            security_protocol="SSL",
            ssl_truststore_type="PEM",
            ssl_truststore_location=str(pem.with_name("absent.pem")),
        )


async def forward(port: int, server: ssl.SSLContext, settings: dict[str, str]) -> str | None:
    """A client over TLS to a proxy in front of a plain broker; gives the cluster's id."""
    host = "localhost"

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        except OSError:
            pass
        target.close()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, broker_writer), pump(broker_reader, writer))

    proxy = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=server)
    async with proxy:
        address = f"{host}:{proxy.sockets[0].getsockname()[1]}"
        async with Admin({**settings, "bootstrap.servers": address}) as admin:
            metadata = await admin.cluster.fetch_metadata([])
        await asyncio.sleep(0.1)
        return metadata.cluster_id


def test_requests_over_tls(bootstrap: str, pem: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    port = int(bootstrap.rpartition(":")[2])
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(pem),
    }
    assert asyncio.run(forward(port, server, settings))


def test_certificate_that_nobody_vouches_for_is_refused(bootstrap: str, pem: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    port = int(bootstrap.rpartition(":")[2])
    with pytest.raises(
        UntrustedError, match=r"certificate is not trusted.*ssl\.truststore"
    ) as told:
        asyncio.run(forward(port, server, {"security.protocol": "SSL"}))
    # It does not become trusted by waiting.
    assert not told.value.retriable
