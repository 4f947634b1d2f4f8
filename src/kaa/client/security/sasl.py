"""SASL on the side of the client: PLAIN and SCRAM (RFC 4616, RFC 5802), from Kafka's settings;
OAUTHBEARER is in `oauth`.

A mechanism is a machine: `start()` gives the first message, `answer(challenge)` the next one,
or None when the server has proved itself. User name and password come from `sasl.jaas.config`:

    org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";

A SCRAM exchange:

| from | message | note |
|---|---|---|
| client | `n,,n=user,r=NONCE` | |
| server | `r=NONCE+MORE,s=SALT,i=ITERATIONS` | |
| client | `c=biws,r=NONCE+MORE,p=PROOF` | `key XOR hmac(hash(key), all of the above)` |
| server | `v=SIGNATURE` | only who knows the password can make it |
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kaa.client.errors import SecurityConfigError
from kaa.limits import CLIENT_SCRAM_ITERATIONS_MAX

if TYPE_CHECKING:
    from kaa.client.security.oauth import TokenSource
    from kaa.config.definition import ConfigValues

_OPTION: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# Kafka accepts no fewer.
_ITERATIONS_MIN: Final = 4096
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
MECHANISMS: Final = ("PLAIN", *_HASHES, "OAUTHBEARER")


class SaslError(Exception):
    """The exchange failed on this side: the server did not prove itself."""


class Credentials(NamedTuple):
    """What a connection authenticates with."""

    mechanism: str
    username: str
    password: str
    # Where tokens come from, for OAUTHBEARER alone.
    tokens: TokenSource | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.username}, [hidden])"


class Mechanism(Protocol):
    """One authentication, from the client's side: `start` once, then `answer` every challenge until
    it gives None.
    """

    def start(self) -> bytes:
        """The first message."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None when the server has proved itself. SaslError if it
        cannot.
        """
        ...


def credentials(values: ConfigValues) -> Credentials | None:
    """The credentials in the settings; None for a protocol without SASL."""
    if not values.get_string("security.protocol").upper().startswith("SASL_"):
        return None
    mechanism = values.get_string("sasl.mechanism")
    if mechanism not in MECHANISMS:
        raise SecurityConfigError(
            f"sasl.mechanism={mechanism} is not supported; use {', '.join(MECHANISMS)}"
        )
    config = values.get_password("sasl.jaas.config")
    options = {} if config is None else dict(_OPTION.findall(config.reveal()))
    if mechanism == "OAUTHBEARER":
        from kaa.client.security.oauth import TokenSource

        return Credentials(mechanism, "", "", TokenSource(values, _unescaped(options)))
    if "username" not in options or "password" not in options:
        raise SecurityConfigError(
            f"sasl.mechanism={mechanism} needs a user; set sasl.username and sasl.password, or "
            f"sasl.jaas.config, for example to {_LOGIN_MODULES[mechanism.partition('-')[0]]} "
            'required username="me" password="secret";'
        )
    unescaped = _unescaped(options)
    return Credentials(mechanism, unescaped["username"], unescaped["password"])


def _unescaped(options: dict[str, str]) -> dict[str, str]:
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in options.items()}


async def mechanism_of(given: Credentials, nonce: str) -> Mechanism:
    """The machine of one exchange; the nonce must be new for each. A token may be fetched."""
    if given.tokens is not None:
        from kaa.client.security.oauth import Bearer

        return Bearer(await given.tokens.token(), given.tokens.extensions)
    if given.mechanism == "PLAIN":
        return Plain(given)
    return Scram(given, nonce)


class Plain:
    """The password itself; only fit for TLS."""

    def __init__(self, given: Credentials) -> None:
        self._given = given

    def start(self) -> bytes:
        return f"\0{self._given.username}\0{self._given.password}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        return None


class Scram:
    """Proves that both sides know the password and tells it to nobody."""

    def __init__(self, given: Credentials, nonce: str) -> None:
        self._hash = _HASHES[given.mechanism]
        self._password = given.password.encode()
        self._nonce = nonce
        name = given.username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={nonce}"
        self._signature: bytes | None = None

    def start(self) -> bytes:
        return f"n,,{self._first}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        fields = dict(part.partition("=")[::2] for part in challenge.decode().split(","))
        if self._signature is None:
            return self._prove(challenge.decode(), fields)
        if not hmac.compare_digest(b64decode(fields.get("v", "")), self._signature):
            raise SaslError("the server did not prove that it knows the password")
        return None

    def _prove(self, challenge: str, fields: dict[str, str]) -> bytes:
        nonce, iterations = fields.get("r", ""), int(fields.get("i", "0"))
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError("the answer of the server belongs to another exchange")
        if not _ITERATIONS_MIN <= iterations <= CLIENT_SCRAM_ITERATIONS_MAX:
            raise SaslError(f"the server asks for {iterations} iterations")
        salt = b64decode(fields.get("s", ""))
        salted = pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._mac(salted, b"Client Key")
        last = f"c=biws,r={nonce}"
        everything = f"{self._first},{challenge},{last}".encode()
        self._signature = self._mac(self._mac(salted, b"Server Key"), everything)
        stored = self._digest(client_key)
        signature = self._mac(stored, everything)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return f"{last},p={b64encode(proof).decode()}".encode()

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)

    def _digest(self, data: bytes) -> bytes:
        return new_hash(self._hash, data).digest()
