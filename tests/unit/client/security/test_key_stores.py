from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from kaa.client.errors import SecurityConfigError
from kaa.client.security.key_stores import read_store
from tests.support.certificates import openssl, self_signed

SETTING = "ssl.truststore"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key with a certificate, as PEM and as PKCS12."""
    made = tmp_path_factory.mktemp("stores")
    key, certificate = map(str, self_signed(made))
    files = ["-inkey", key, "-in", certificate, "-out", str(made / "store.p12")]
    openssl("pkcs12", "-export", *files, "-passout", "pass:secret")
    return made


def test_a_key_with_its_certificate(folder: Path) -> None:
    store = read_store(str(folder / "store.p12"), "PKCS12", "secret", "ssl.keystore")
    assert store.key.startswith("-----BEGIN PRIVATE KEY-----")
    written = (folder / "certificate.pem").read_text()
    assert store.certificates.strip() == written.strip()


def test_a_trust_store_of_javas_keytool(folder: Path) -> None:
    keytool = shutil.which("keytool")
    if keytool is None:
        pytest.skip("Java's keytool is not installed")
    path = folder / "trust.p12"
    command = [keytool, "-importcert", "-noprompt", "-alias", "ca", "-storetype", "PKCS12"]
    files = ["-file", str(folder / "certificate.pem"), "-keystore", str(path)]
    subprocess.run([*command, *files, "-storepass", "secret"], check=True, capture_output=True)
    store = read_store(str(path), "JKS", "secret", SETTING)
    assert store.key == ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=store.certificates)
    assert len(context.get_ca_certs()) == 1


def test_what_cannot_be_read_says_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = str(folder / "store.p12")
    with pytest.raises(SecurityConfigError, match=r"check ssl\.truststore\.password"):
        read_store(store, "PKCS12", "wrong", SETTING)
    with pytest.raises(SecurityConfigError, match="convert it to PEM"):
        read_store(store, "BCFKS", "secret", SETTING)
    with pytest.raises(SecurityConfigError, match="No such file"):
        read_store(str(folder / "absent.p12"), "PKCS12", "secret", SETTING)
    jks = folder / "store.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    with pytest.raises(SecurityConfigError, match="keytool -importkeystore"):
        read_store(str(jks), "JKS", "secret", SETTING)
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SecurityConfigError, match=r"kaa\[tls\]"):
        read_store(store, "PKCS12", "secret", SETTING)
