"""Ten minutes of everything at once: `python -m tests.soak.mixed --seconds N`.

A node serves, window after window, producers with and without compression, readers from the start,
commits, transactions, connections that come and go, and topics that are made and deleted; all the
while single records arrive at a fixed rate. After each window its memory, its open descriptors, the
99th percentile of the single records and the lag of its loop are noted. None of them may drift: the
last windows are compared with the first ones after a warm-up.

The rule knows that a machine is not quiet: latency and lag may multiply as much as `FACTOR_MAX`
between the medians; memory and descriptors are the node's own and get little room.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from benches.brokers import KAA, BrokerNode, raise_descriptor_limit
from benches.cells import Load
from benches.driving import Driver, delete_topics
from benches.histogram import Latencies
from benches.sampling import usage
from benches.scale import QUICK
from benches.stage import Stage
from kaa.wire.registry import ApiKey

SECONDS: Final = 600
WINDOW_SECONDS: Final = 10.0
WINDOWS_MIN: Final = 4
RATE: Final = 200
RECORDS: Final = 40_000
# By how much the last windows may be above the first.
MEMORY_GROWTH_MB_MAX: Final = 24.0
DESCRIPTOR_GROWTH_MAX: Final = 16
FACTOR_MAX: Final = 5.0
# Below this, latency and lag are noise of the machine.
QUIET_MS: Final = 20.0


class Window(NamedTuple):
    memory_mb: float
    descriptors: int
    p99_ms: float
    lag_ms: float


def problems(windows: Sequence[Window]) -> list[str]:
    """What drifted between the first windows and the last ones."""
    share = max(1, len(windows) // 4)
    # The first window warms up: codecs are compiled, buffers grow to their size.
    first, last = windows[1 : 1 + share], windows[-share:]

    def medians(name: str) -> tuple[float, float]:
        return tuple(
            statistics.median(getattr(window, name) for window in part) for part in (first, last)
        )

    found = []
    before, after = medians("memory_mb")
    if after - before > MEMORY_GROWTH_MB_MAX:
        found.append(f"memory grew from {before:.0f} to {after:.0f} MB")
    before, after = medians("descriptors")
    if after - before > DESCRIPTOR_GROWTH_MAX:
        found.append(f"open descriptors grew from {before:.0f} to {after:.0f}")
    for name, text in (("p99_ms", "the 99th percentile"), ("lag_ms", "the lag of the loop")):
        before, after = medians(name)
        if after > max(QUIET_MS, FACTOR_MAX * before):
            found.append(f"{text} went from {before:.1f} to {after:.1f} ms")
    return found


def run_window(stage: Stage, node: BrokerNode, seconds: float) -> Window:
    steady = stage.topic(node, Load())
    task = stage.task(node, Load(), steady, acks=-1, rate=RATE, tick_seconds=1e-4, seconds=seconds)
    single = Driver("produce", "fixed_rate", task)
    single.begin()
    node.loop_lag()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        _everything(stage, node)
    result = single.result()
    lag = node.loop_lag()
    delete_topics(node.bootstrap_servers, [steady])
    # Files of deleted topics are closed a moment later.
    time.sleep(float(node.settings["log.segment.delete.delay.ms"]) / 1e3 + 1.5)
    now = usage(node.pid)
    return Window(
        now.resident_bytes / 1e6,
        now.descriptors,
        Latencies.from_text(result["latencies"]).milliseconds(99),
        lag.get("lag_p99.9_ms", 0.0),
    )


def _everything(stage: Stage, node: BrokerNode) -> None:
    load = Load()
    for each in (load, replace(load, compression="lz4"), replace(load, acks="0")):
        topic = stage.topic(node, each)
        stage.drive(node, "librdkafka", "produce", each, topic, count=RECORDS)
        if each.acks != "0":
            stage.drive(node, "librdkafka", "consume", each, topic, count=RECORDS)
        delete_topics(node.bootstrap_servers, [topic])
    topic = stage.topic(node, load)
    more = {"group": "soak", "connections": 5, "seconds": 0.5}
    stage.drive(node, "groups", "commits", load, topic, **more)
    stage.drive(
        node, "connections", "idle", load, topic,
        connections=200, broker_pid=node.pid, hold_seconds=0.1,
    )  # fmt: skip
    if ApiKey.END_TXN.value in node.served():
        more = {"transactional_id": "soak", "records_each": 10, "seconds": 0.5}
        stage.drive(node, "librdkafka", "transactions", load, topic, **more)
    delete_topics(node.bootstrap_servers, [topic])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.mixed", description=__doc__)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    seconds: int = parser.parse_args(arguments).seconds
    raise_descriptor_limit()
    windows: list[Window] = []
    until = time.monotonic() + seconds
    with (
        tempfile.TemporaryDirectory(prefix="kaa-soak-", ignore_cleanup_errors=True) as folder,
        Stage(Path(folder), QUICK) as stage,
    ):
        node = stage.node(KAA, {})
        node.loop_lag()
        while time.monotonic() < until or len(windows) < WINDOWS_MIN:
            windows.append(run_window(stage, node, min(WINDOW_SECONDS, seconds / WINDOWS_MIN)))
            memory_mb, descriptors, p99_ms, lag_ms = windows[-1]
            print(
                f"window {len(windows):>3}: {memory_mb:6.1f} MB, {descriptors:>4} descriptors, "
                f"p99 {p99_ms:7.2f} ms, loop lag p99.9 {lag_ms:7.2f} ms",
                flush=True,
            )
        output = node.output
        node.stop()
    found = problems(windows)
    if "Traceback" in output or " failed: " in output:
        found.append(f"the node reported trouble:\n{output[-2000:]}")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
