"""Records that every client sends and must get back as they were."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_TIMESTAMP_MS = 1_700_000_000_000


class Sample(NamedTuple):
    """A record as clients see it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


def _samples() -> list[Sample]:
    random = Random(4)
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (b"key", b"value"),
        (None, b"without a key"),
        (b"tombstone", None),
        (None, None),
        (b"", b""),
        (b"\x00\xff\xfe", bytes(range(256))),
        ("schl\u00fcssel".encode(), "w\u00e9rt \u2603".encode()),
        (b"random", random.randbytes(70_000)),
        (b"long", b"abcdefgh" * 12_500),
    ]
    headers: list[tuple[tuple[str, bytes | None], ...]] = [
        (),
        (("one", b"1"),),
        (("twice", b"a"), ("twice", b"b"), ("empty", b""), ("null", None)),
    ]
    return [
        Sample(key, value, FIRST_TIMESTAMP_MS + 1_000 * number, headers[number % 3])
        for number, (key, value) in enumerate(pairs)
    ]


SAMPLES = _samples()
