"""Key stores of Java's world as PEM text: PKCS12 is read, JKS is refused with a hint.

A PKCS12 file (RFC 7292) holds a private key with its certificate chain, or, as a trust store,
certificates alone. It is read by the package `cryptography`, which the extra `tls` installs.
JKS is a format of Java's own; `keytool` converts it. Java reads PKCS12 files under the type JKS
as well, its default, so the file itself tells: one that begins with `FE ED FE ED` is JKS.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from kaa.client.errors import SecurityConfigError

_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"


class PemStore(NamedTuple):
    """What a store holds, as PEM text; a trust store has no key, and that is empty."""

    key: str
    # The certificate of the key first, then those that vouch for it.
    certificates: str


def read_store(path: str, kind: str, password: str | None, setting: str) -> PemStore:
    """Reads a PKCS12 file; `setting` is the prefix of its settings, for what is said of errors.

    Raises SecurityConfigError.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SecurityConfigError(f"cannot read {setting}.location={path}: {error.strerror}") from (
            error
        )
    if data.startswith(_JKS_MAGIC):
        raise SecurityConfigError(
            f"{setting}.location={path} is a JKS file, which only Java reads; convert it (keytool "
            f"-importkeystore -srckeystore {path} -destkeystore store.p12 -deststoretype pkcs12) "
            f"and set {setting}.type=PKCS12"
        )
    if kind not in {"JKS", "PKCS12"}:
        raise SecurityConfigError(
            f"{setting}.type={kind} is not supported; convert it to PEM (openssl pkcs12 -in "
            f"store.p12 -nodes -out store.pem) and set {setting}.type=PEM"
        )
    return _read_pkcs12(data, password, setting)


def _read_pkcs12(data: bytes, password: str | None, setting: str) -> PemStore:
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError as error:
        raise SecurityConfigError(
            f"{setting}.type=PKCS12 needs the package cryptography (pip install 'kaa[tls]'); or "
            "convert it to PEM (openssl pkcs12 -in store.p12 -nodes -out store.pem) and set "
            f"{setting}.type=PEM"
        ) from error

    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise SecurityConfigError(
            f"cannot read {setting}.location: {error}; check {setting}.password"
        ) from error
    others = [one.certificate for one in store.additional_certs]
    chain = [store.cert.certificate, *others] if store.cert is not None else others
    text = "".join(one.public_bytes(Encoding.PEM).decode() for one in chain)
    key = ""
    if store.key is not None:
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return PemStore(key, text)
