"""The choice of the kernel, its lock, and the two twins beside each other on damaged batches."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from typing import Any

import pytest

from kaa.records import (
    KERNEL_NAME,
    AppendRules,
    CompressionType,
    TimestampType,
    Validated,
    encode_record,
    validate_produced,
)
from kaa.records._pure_validate import SCAN_DONE, RecordScanner
from kaa.records.kernel import RecordScanner as ChosenScanner
from kaa.twins import compiled
from tests.unit.records.samples import (
    NOW_MS,
    PLAIN_SCANS,
    SCANNERS,
    damage_records,
    damaged,
    expanded,
    random_batch,
    simple_batch,
    validate_by,
)
from tests.unit.records.test_pure_validate import RULES

needs_compiled = pytest.mark.skipif(
    compiled("kaa.records._kernel") is None, reason="the compiled kernel was not built"
)


def chosen_by_a_new_process(pure_python: str) -> str:
    environment = {**os.environ, "KAA_PURE_PYTHON": pure_python}
    program = "import kaa.records; print(kaa.records.KERNEL_NAME)"
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()


def test_the_environment_asks_for_the_twin() -> None:
    assert chosen_by_a_new_process("1") == "python"


@needs_compiled
def test_the_compiled_kernel_is_chosen_where_it_was_built() -> None:
    assert chosen_by_a_new_process("0") == "cython"


def test_the_name_tells_which_one_is_in_use() -> None:
    assert (KERNEL_NAME == "python") == (ChosenScanner is RecordScanner)


def outcome(scanner: RecordScanner, status: int) -> tuple[Any, ...]:
    """What must be equal between twins; of a refused batch that is the refusal alone."""
    if status != SCAN_DONE:
        return (status, scanner.record_index)
    return (
        status,
        scanner.record_index,
        scanner.max_timestamp,
        scanner.max_timestamp_offset_delta,
        scanner.is_consecutive,
        scanner.is_canonical,
        scanner.has_timestamp_error,
        scanner.scanned_bytes,
        scanner.errors,
    )


@needs_compiled
@pytest.mark.parametrize("checks_lengths", [False, True])
def test_twins_agree_at_every_chunk(checks_lengths: bool) -> None:
    rng = random.Random(17)
    done = 0
    for _ in range(1500):
        batch = random_batch(rng)
        count = int.from_bytes(batch[57:61], "big")
        records = bytearray(expanded(batch))
        if rng.random() < 0.7:
            damage_records(records, rng)
        rules = {
            **RULES,
            "record_count": count,
            "checks_lengths": checks_lengths,
            "requires_key": rng.random() < 0.5,
            "before_max_ms": rng.choice((100, 2**63 - 1)),
            "append_time": rng.choice((None, None, -1, RULES["now_ms"])),
            "tracks_canonical": True,
        }
        scanners = [scanner_class(**rules) for scanner_class in SCANNERS.values()]
        position = 0
        while position < len(records):
            size = rng.choice((1, 3, 20, 100, 5000))
            chunk = records[position : position + size]
            one, two = [outcome(scanner, scanner.feed(chunk)) for scanner in scanners]
            assert one[:2] == two[:2]
            position += size
        one, two = [outcome(scanner, scanner.finish()) for scanner in scanners]
        assert one == two
        done += one[0] == SCAN_DONE
    assert done > 400


def verdict_on(records: bytearray, rules: AppendRules) -> tuple[object, ...]:
    verdict = validate_produced(memoryview(records), 12, rules, NOW_MS)
    if isinstance(verdict, Validated):
        return (bytes(verdict.stamped.view), *verdict[1:])
    return tuple(verdict)


@needs_compiled
def test_a_plain_batch_is_judged_in_one_step_as_in_many(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(23)
    plain = accepted = 0
    for _ in range(4000):
        batch = random_batch(rng)
        if rng.random() < 0.6:
            batch = damaged(batch, rng)
        rules = AppendRules(
            message_bytes_max=rng.choice((300, 1 << 20)),
            compression_type=rng.choice((None, None, CompressionType.NONE, CompressionType.LZ4)),
            timestamp_type=rng.choice(tuple(TimestampType)),
            timestamp_before_max_ms=rng.choice((100, 2**63 - 1)),
            is_compacted=rng.random() < 0.3,
        )
        found = []
        for name in SCANNERS:
            validate_by(name, monkeypatch)
            found.append(verdict_on(bytearray(batch), rules))
        one, two = found
        assert one == two
        accepted += isinstance(one[0], bytes)
        limits = (1 << 20, NOW_MS, 2**63 - 1, 3_600_000, True, False, 1 << 60)
        plain += PLAIN_SCANS["cython"](batch, *limits) is not None
    assert accepted > 800
    assert plain > 300


@needs_compiled
@pytest.mark.parametrize("size", [0, 1, 11, 12, 16, 17, 60, 61])
def test_what_is_too_short_for_a_plain_batch_is_looked_at_closer(size: int) -> None:
    limits = (1 << 20, NOW_MS, 2**63 - 1, 3_600_000, True, False, 1)
    assert PLAIN_SCANS["cython"](simple_batch()[:size], *limits) is None
    assert PLAIN_SCANS["cython"](bytes(size), *limits) is None


@needs_compiled
def test_large_work_runs_without_the_interpreter_lock() -> None:
    """With the lock dropped, another thread counts on while one call of the kernel runs."""
    record = encode_record(0, 0, b"k", b"v" * 10)
    count = 2_000_000
    records = record * count
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1

    def ticks_during_scan(unlocked_bytes_min: int) -> int:
        rules = {**RULES, "record_count": count, "unlocked_bytes_min": unlocked_bytes_min}
        scanner = SCANNERS["cython"](**rules)
        before = ticks
        assert scanner.feed(records) == SCAN_DONE
        return ticks - before

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=tick)
    thread.start()
    try:
        sys.setswitchinterval(0.3)
        # On a busy machine the lock may be asked for just before or after a call.
        runs_beside = any(ticks_during_scan(1) for _ in range(5))
        waits = any(ticks_during_scan(1 << 60) == 0 for _ in range(5))
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert runs_beside
    assert waits
