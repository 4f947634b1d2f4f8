"""What Kafka's tools print, and drivers that fail."""

from __future__ import annotations

import pytest

from benches.driving import (
    Driver,
    DriverFailedError,
    consume_performance,
    end_to_end_latency,
    produce_performance,
)

PRODUCED = """\
10 records sent, 1.0 records/sec (0.00 MB/sec), 1.0 ms avg latency, 1.0 ms max latency.
50000 records sent, 25000.0 records/sec (24.41 MB/sec), 3.50 ms avg latency, \
120.00 ms max latency, 2 ms 50th, 9 ms 95th, 30 ms 99th, 88 ms 99.9th.
Metric Name                                                        Value
producer-metrics:request-total:{client-id=perf-producer-client}  : 812.000
"""
CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-01-01 00:00:00:000, 2026-01-01 00:00:02:000, 97.6562, 48.8281, 100000, 50000.0, \
1000, 1000, 97.6562, 100000.0
"""
END_TO_END = """\
0\t3.1
Avg latency: 1.2345 ms
Percentiles: 50th = 1, 99th = 4, 99.9th = 9
"""


def test_producer_performance() -> None:
    found = produce_performance(PRODUCED)
    assert found["records"] == 50_000
    assert found["seconds"] == 2
    assert found["tool_p99_ms"] == 30
    assert found["requests"] == 812


def test_consumer_performance_leaves_the_rebalance_out() -> None:
    found = consume_performance(CONSUMED)
    assert (found["records"], found["seconds"], found["records_per_second"]) == (100_000, 1, 1e5)
    assert "requests" not in found


def test_end_to_end_latency() -> None:
    found = end_to_end_latency(END_TO_END)
    assert (found["tool_mean_ms"], found["tool_p50_ms"], found["tool_p99.9_ms"]) == (1.2345, 1, 9)


@pytest.mark.parametrize("read", [produce_performance, consume_performance, end_to_end_latency])
def test_output_without_a_result_is_an_error(read: object) -> None:
    assert callable(read)
    with pytest.raises(DriverFailedError, match="said: boom"):
        read("boom")


def test_driver_that_cannot_connect_says_why() -> None:
    task = {
        "bootstrap_servers": "127.0.0.1:1",
        "topic": "t",
        "record_bytes": 10,
        "partitions": 1,
        "seconds": 1,
    }
    with pytest.raises(DriverFailedError, match="refused"):
        Driver("produce", "one_in_flight", task)
