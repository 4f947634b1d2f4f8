"""SCRAM credentials given when a cluster is formatted (`--add-scram`).

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]

What is stored are the two keys of RFC 5802, derived from the salted password; salt and salted
password are base64.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode
from typing import TYPE_CHECKING, Final

from kaa.wire.messages.metadata_settings import UserScramCredentialRecord

if TYPE_CHECKING:
    from collections.abc import Callable

_MECHANISMS: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_ITERATIONS_DEFAULT: Final = 4096
_ITERATIONS_MIN: Final = 4096
_ITERATIONS_MAX: Final = 16384
_SALT_BYTES: Final = 20
_KNOWN: Final = frozenset({"name", "password", "salt", "saltedpassword", "iterations"})


class ScramError(ValueError):
    """An argument that is not a credential; `str()` says why and never repeats the password."""


def parse_credential(
    argument: str, random_bytes: Callable[[int], bytes]
) -> UserScramCredentialRecord:
    """The record of one credential."""
    name, equals, text = argument.strip().partition("=")
    if not equals:
        raise ScramError("a credential has the form MECHANISM=[name=...,password=...]")
    if name not in _MECHANISMS:
        raise ScramError(f"there is no SCRAM mechanism {name}; use {' or '.join(_MECHANISMS)}")
    if not (text.startswith("[") and text.endswith("]")):
        raise ScramError(f"what follows {name}= must be in brackets")
    parts = _parts(text[1:-1])
    user = parts.get("name")
    if not user:
        raise ScramError("a credential needs a name")
    salt = _decoded(parts, "salt") or random_bytes(_SALT_BYTES)
    iterations = _iterations(parts)
    mechanism, digest = _MECHANISMS[name]
    salted = _salted_password(parts, digest, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=salt,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", digest),
        iterations=iterations,
    )


def _parts(text: str) -> dict[str, str]:
    parts = {}
    for entry in text.split(","):
        name, equals, value = entry.partition("=")
        if not equals:
            raise ScramError("each part of a credential has the form name=value")
        if name not in _KNOWN:
            raise ScramError(f"a credential has no {name}; it has {', '.join(sorted(_KNOWN))}")
        is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        parts[name] = value[1:-1] if is_quoted else value
    return parts


def _decoded(parts: dict[str, str], name: str) -> bytes | None:
    if name not in parts:
        return None
    try:
        return b64decode(parts[name], validate=True)
    except ValueError:
        raise ScramError(f"the {name} is not base64") from None


def _iterations(parts: dict[str, str]) -> int:
    text = parts.get("iterations", str(_ITERATIONS_DEFAULT))
    if not text.isascii() or not text.isdigit():
        raise ScramError(f"iterations={text} is not a number")
    iterations = int(text)
    if not _ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
        raise ScramError(f"iterations must lie between {_ITERATIONS_MIN} and {_ITERATIONS_MAX}")
    return iterations


def _salted_password(parts: dict[str, str], digest: str, salt: bytes, iterations: int) -> bytes:
    if "password" in parts:
        return hashlib.pbkdf2_hmac(digest, parts["password"].encode(), salt, iterations)
    salted = _decoded(parts, "saltedpassword")
    if salted is None:
        raise ScramError("a credential needs a password or a saltedpassword")
    if "salt" not in parts:
        raise ScramError("a saltedpassword needs its salt")
    return salted
