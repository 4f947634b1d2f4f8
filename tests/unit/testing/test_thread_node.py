from __future__ import annotations

import time

import pytest

from kaa.testing.faults import Faults
from kaa.testing.thread_node import SteadyClock, ThreadNode


def test_a_node_has_a_loop_of_its_own() -> None:
    node = ThreadNode([], Faults())
    with pytest.raises(RuntimeError, match="not running"):
        node.call(list)
    node.launch().result(20)
    try:
        assert node.is_running
        assert node.call(lambda: 7) == 7
    finally:
        node.launch_stop().result(20)
        node.join()
    assert not node.is_running


def test_an_error_of_a_start_reaches_whoever_waits() -> None:
    node = ThreadNode(["log.retention.ms=soon"], Faults())
    with pytest.raises(Exception, match=r"log\.retention\.ms"):
        node.launch().result(20)
    node.join()


def test_the_clock_does_not_follow_replaced_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 0)
    first = clock.monotonic_ms()
    assert first > 0
    assert clock.monotonic_ms() >= first
    assert clock.wall_ms() > 1_700_000_000_000
    assert clock.now_ms() > 1_700_000_000_000


def test_a_node_runs_on_while_the_time_of_a_test_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kaa.testing import Broker

    with Broker() as broker:
        monkeypatch.setattr(time, "time", lambda: 0.0)
        monkeypatch.setattr(time, "monotonic", lambda: 0.0)
        topic = broker.topic("orders")
        topic.seed(["a"])
        topic.expect(["a"])
        monkeypatch.undo()
