"""The fuzz target of record batches on seeded damage, so that every run has a share of it."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.records import fuzz_record_batch
from tests.unit.records.samples import damaged, random_batch


def test_damaged_batches() -> None:
    rng = random.Random(29)
    for _ in range(150):
        batch = random_batch(rng)
        data = bytearray(damaged(batch, rng) if rng.random() < 0.8 else batch)
        if rng.random() < 0.3 and data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        fuzz_record_batch(bytes(data))


@given(st.binary(max_size=150))
def test_any_bytes(data: bytes) -> None:
    fuzz_record_batch(data)
