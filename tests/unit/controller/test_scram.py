from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

import pytest

from kaa.controller.scram import ScramError, parse_credential

SALT = b"0123456789"


def fixed(count: int) -> bytes:
    return bytes(range(count))


@pytest.mark.parametrize(
    ("mechanism", "number", "digest"), [("256", 1, "sha256"), ("512", 2, "sha512")]
)
def test_keys_follow_from_the_password(mechanism: str, number: int, digest: str) -> None:
    record = parse_credential(f"SCRAM-SHA-{mechanism}=[name=alice,password=secret]", fixed)
    salted = hashlib.pbkdf2_hmac(digest, b"secret", fixed(20), 4096)
    client_key = hmac.digest(salted, b"Client Key", digest)
    assert (record.name, record.mechanism, record.iterations) == ("alice", number, 4096)
    assert record.salt == fixed(20)
    assert record.stored_key == hashlib.new(digest, client_key).digest()
    assert record.server_key == hmac.digest(salted, b"Server Key", digest)


def test_a_salted_password_gives_the_same_keys() -> None:
    salt = b64encode(SALT).decode()
    plain = parse_credential(
        f'SCRAM-SHA-256=[name=a,iterations=8192,salt="{salt}",password=secret]', fixed
    )
    salted = b64encode(hashlib.pbkdf2_hmac("sha256", b"secret", SALT, 8192)).decode()
    given = parse_credential(
        f'SCRAM-SHA-256=[name=a,iterations=8192,salt="{salt}",saltedpassword="{salted}"]', fixed
    )
    assert plain == given
    assert plain.iterations == 8192


@pytest.mark.parametrize(
    "wrong",
    [
        "SCRAM-SHA-256",
        "SCRAM-SHA-1=[name=a,password=secret]",
        "SCRAM-SHA-256=name=a,password=secret",
        "SCRAM-SHA-256=[name=a,password=secret",
        "SCRAM-SHA-256=[password=secret]",
        "SCRAM-SHA-256=[name=a]",
        "SCRAM-SHA-256=[name=a,secret]",
        "SCRAM-SHA-256=[name=a,password=secret,other=1]",
        "SCRAM-SHA-256=[name=a,password=secret,iterations=many]",
        "SCRAM-SHA-256=[name=a,password=secret,iterations=4095]",
        "SCRAM-SHA-256=[name=a,password=secret,iterations=16385]",
        "SCRAM-SHA-256=[name=a,password=secret,salt=*]",
        "SCRAM-SHA-256=[name=a,saltedpassword=YCE=]",
    ],
)
def test_refusals_never_repeat_the_password(wrong: str) -> None:
    with pytest.raises(ScramError) as refused:
        parse_credential(wrong, fixed)
    assert "secret" not in str(refused.value)
