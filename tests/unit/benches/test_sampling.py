"""What a process costs, read from /proc: of this one and of a child."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from benches.sampling import Sampler, usage, usage_of
from tests.support.children import running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
# For as long as the sampler needs to see it, and until it has had that much of a processor.
SPIN = """import time
end = time.monotonic() + 1.2
while time.monotonic() < end or time.process_time() < 0.6: pass"""


def test_own_usage() -> None:
    before = usage(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    after = usage(os.getpid())
    assert after.cpu_seconds - before.cpu_seconds >= 0.05
    assert after.resident_bytes > 1_000_000
    assert after.context_switches > 0
    assert after.descriptors >= 3


def test_usage_of_several_is_their_sum() -> None:
    with running([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        one = usage(os.getpid())
        both = usage_of((os.getpid(), child.pid))
        assert child.stdin is not None
        child.stdin.close()
    assert both.resident_bytes > 0.9 * one.resident_bytes
    assert both.cpu_seconds >= one.cpu_seconds
    assert both.descriptors > 3


def test_busy_thread_of_a_driver_is_seen() -> None:
    started = time.monotonic()
    with (
        running([sys.executable, "-c", SPIN]) as child,
        Sampler(brokers=(os.getpid(),), drivers=(child.pid,)) as sampler,
    ):
        child.wait()
    # On a busy machine a thread that never rests may have little of a core.
    assert 0.3 / (time.monotonic() - started) < sampler.busiest_thread_share <= 1.1
    assert sampler.resident_bytes_max > 1_000_000
    times = [at for at, _ in sampler.memory]
    assert len(times) > 5
    assert times == sorted(times)


def test_process_that_is_gone_is_no_failure() -> None:
    with running([sys.executable, "-c", ""]) as child:
        child.wait()
    with Sampler(brokers=(child.pid,), drivers=(child.pid,)) as sampler:
        pass
    assert sampler.resident_bytes_max == 0
    assert sampler.busiest_thread_share == 0
