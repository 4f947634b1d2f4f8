"""What is served of queries; tests/spark/test_metrics.py listens to real ones."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

from kaa.spark import metrics
from kaa.spark.metrics import Board, Metrics
from tests.support.pace import PATIENCE_SECONDS


def report(name: str | None, *sources: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "1-2",
        "name": name,
        "durationMs": {"triggerExecution": 1500},
        "sources": list(sources),
    }


def test_the_text() -> None:
    board = Board()
    assert board.text() == ""
    board.started("1-2", 'a "name"')
    ours = {
        "numInputRows": 7,
        "endOffset": '{"@ids": {"t": "x"}, "t": {"0": 5}, "u": {"0": 2}}',
        "latestOffset": {"@lag": 10, "@bytes": 700, "t": {"0": 8, "1": 7}, "u": {"0": 2}},
    }
    other = {"numInputRows": 3, "endOffset": "7", "latestOffset": "null"}
    board.progress(report("a", ours, other))
    board.progress(report("a", ours, {"endOffset": "{", "latestOffset": '{"t": 1}'}))
    board.ended("1-2", has_failed=True)
    board.ended("unknown", has_failed=True)
    query = r'query="a \"name\""'
    lines = [one for one in board.text().splitlines() if not one.startswith("#")]
    assert lines == [
        f'kaa_spark_source_lag_records{{{query},source="0",topic="t"}} 10',
        f'kaa_spark_source_lag_records{{{query},source="0",topic="u"}} 0',
        f'kaa_spark_source_rows_total{{{query},source="0"}} 14',
        f'kaa_spark_source_rows_total{{{query},source="1"}} 3',
        f'kaa_spark_source_bytes_total{{{query},source="0"}} 1400',
        f'kaa_spark_source_bytes_total{{{query},source="1"}} 0',
        f"kaa_spark_query_batches_total{{{query}}} 2",
        f"kaa_spark_query_batch_seconds{{{query}}} 1.5",
        f"kaa_spark_query_up{{{query}}} 0",
        f"kaa_spark_query_failures_total{{{query}}} 1",
    ]
    assert "# TYPE kaa_spark_source_rows_total counter" in board.text()


def test_queries_that_ended_are_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "SPARK_METRICS_QUERIES_MAX", 2)
    board = Board()
    for name in ("a", "b", "c", "d"):
        board.started(name, None)
        if name in {"a", "c"}:
            board.ended(name, has_failed=False)
    assert [f'query_up{{query="{name}"}}' in board.text() for name in "abcd"] == [
        False, True, False, True]  # fmt: skip


class FakeSession:
    """What the endpoint needs of a session."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.listeners: list[Any] = []
        self.streams = SimpleNamespace(
            addListener=self.listeners.append, removeListener=self.listeners.remove
        )


def get(url: str) -> tuple[int, str, str]:
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


def is_closed(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def test_the_endpoint() -> None:
    session: Any = FakeSession()
    board = Board()
    served = Metrics(session, board, "127.0.0.1", 0)
    try:
        session.listeners[0].onQueryStarted(SimpleNamespace(id="1", name="q"))
        assert get(served.url) == (200, metrics.CONTENT_TYPE, board.text())
        assert 'kaa_spark_query_up{query="q"} 1' in board.text()
        with pytest.raises(urllib.error.HTTPError, match="404") as raised:
            get(served.url + "/other")
        raised.value.close()
    finally:
        served.stop()
        served.stop()
    assert session.listeners == []
    assert is_closed(served.port)


def test_it_ends_with_the_session() -> None:
    session: Any = FakeSession()
    served = Metrics(session, Board(), "127.0.0.1", 0)
    session.is_stopped = True
    served._thread.join(PATIENCE_SECONDS)
    assert is_closed(served.port)
    served.stop()
