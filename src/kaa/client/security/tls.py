"""TLS for clients, from Kafka's `ssl.*` settings with PEM files, PEM text or PKCS12 files.

A key store in PEM form is one file with the private key and the certificate chain
(`ssl.keystore.location`), or both as text (`ssl.keystore.key`,
`ssl.keystore.certificate.chain`). Files of other types are for `key_stores` to read.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kaa.client.errors import SecurityConfigError
from kaa.client.security.key_stores import read_store

if TYPE_CHECKING:
    from kaa.client.security.key_stores import PemStore
    from kaa.config.definition import ConfigValues

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(values: ConfigValues) -> ssl.SSLContext | None:
    """The TLS context of a client; None for a protocol without TLS."""
    protocol = values.get_string("security.protocol").upper()
    if not protocol.endswith("SSL"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    enabled = [_VERSIONS[name] for name in values.get_list("ssl.enabled.protocols")]
    context.minimum_version, context.maximum_version = min(enabled), max(enabled)
    # An empty algorithm turns the check of the host name off, as in Java.
    context.check_hostname = bool(values.value("ssl.endpoint.identification.algorithm"))
    try:
        _load_trust(context, values)
        _load_own_key(context, values)
    except (OSError, ssl.SSLError) as error:
        raise SecurityConfigError(f"cannot use the files of ssl.*: {error}") from error
    return context


def trusting_context(values: ConfigValues) -> ssl.SSLContext:
    """For other servers, such as providers of tokens: trusts as the client does, without a key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        _load_trust(context, values)
    except (OSError, ssl.SSLError) as error:
        raise SecurityConfigError(f"cannot use the files of ssl.*: {error}") from error
    return context


def _store(values: ConfigValues, name: str) -> PemStore | None:
    """The file of a key or trust store that is not PEM."""
    location = values.get_optional_string(f"ssl.{name}.location")
    kind = values.get_string(f"ssl.{name}.type").upper()
    if location is None or kind == "PEM":
        return None
    password = values.get_password(f"ssl.{name}.password")
    secret = None if password is None else password.reveal()
    return read_store(location, kind, secret, f"ssl.{name}")


def _load_trust(context: ssl.SSLContext, values: ConfigValues) -> None:
    certificates = values.get_password("ssl.truststore.certificates")
    location = values.get_optional_string("ssl.truststore.location")
    if certificates is not None:
        context.load_verify_locations(cadata=certificates.reveal())
    elif (store := _store(values, "truststore")) is not None:
        context.load_verify_locations(cadata=store.certificates)
    elif location is not None:
        context.load_verify_locations(cafile=location)
    else:
        context.load_default_certs()


def _load_own_key(context: ssl.SSLContext, values: ConfigValues) -> None:
    password = values.get_password("ssl.key.password")
    secret = None if password is None else password.reveal()
    key = values.get_password("ssl.keystore.key")
    chain = values.get_password("ssl.keystore.certificate.chain")
    location = values.get_optional_string("ssl.keystore.location")
    if key is not None and chain is not None:
        _load_text(context, f"{key.reveal()}\n{chain.reveal()}\n", secret)
    elif (store := _store(values, "keystore")) is not None:
        _load_text(context, store.key + store.certificates, None)
    elif location is not None:
        context.load_cert_chain(location, password=secret)


def _load_text(context: ssl.SSLContext, pem: str, password: str | None) -> None:
    """The library reads keys from files alone; this one is gone when it was read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "key.pem")
        path.touch(mode=0o600)
        path.write_text(pem)
        context.load_cert_chain(path, password=password)
