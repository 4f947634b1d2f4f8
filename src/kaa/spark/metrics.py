"""Lag, rows and bytes of the sources of all queries of a session, for Prometheus.

::

    metrics = kaa.spark.serve_metrics(spark, port=9400)
    metrics.url  # http://127.0.0.1:9400/metrics

| metric | type | of |
|---|---|---|
| kaa_spark_source_lag_records | gauge | each topic: records that are not read yet |
| kaa_spark_source_rows_total | counter | each source: rows that were read |
| kaa_spark_source_bytes_total | counter | each source: their stored bytes, estimated |
| kaa_spark_query_batches_total | counter | each query |
| kaa_spark_query_batch_seconds | gauge | each query: how long its last batch took |
| kaa_spark_query_up | gauge | each query: 1, or 0 when it has ended |
| kaa_spark_query_failures_total | counter | each query: how often it has ended by an error |

Labels are `query` (its name, or its id without one), `source` (its number) and `topic`. Rows are
counted for every source, lag and bytes for the format `kaa`. What is known comes from progress that
Spark reports after each batch; a query that has ended is forgotten when there are too many.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.limits import (
    SPARK_METRICS_LOOK_SECONDS,
    SPARK_METRICS_QUERIES_MAX,
    SPARK_METRICS_REQUEST_SECONDS_MAX,
)
from kaa.spark.offsets import BYTES, StreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PATH: Final = "/metrics"


class _Metric(NamedTuple):
    name: str
    kind: str
    help: str


_LAG: Final = _Metric("kaa_spark_source_lag_records", "gauge", "Records that are not read yet.")
_ROWS: Final = _Metric("kaa_spark_source_rows_total", "counter", "Rows that were read.")
_BYTES: Final = _Metric(
    "kaa_spark_source_bytes_total", "counter", "Stored bytes of rows that were read, estimated."
)
_BATCHES: Final = _Metric("kaa_spark_query_batches_total", "counter", "Batches that were done.")
_SECONDS: Final = _Metric("kaa_spark_query_batch_seconds", "gauge", "Time of the last batch.")
_UP: Final = _Metric("kaa_spark_query_up", "gauge", "Whether the query runs.")
_FAILURES: Final = _Metric("kaa_spark_query_failures_total", "counter", "Ends by an error.")


@dataclass
class _Query:
    """What is known of a query, over all its runs in this session."""

    label: str
    is_up: bool = True
    failures: int = 0
    batches: int = 0
    batch_seconds: float = 0.0
    rows: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    size_bytes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    # By source and topic.
    lag: dict[tuple[int, str], int] = field(default_factory=dict)


class Board:
    """What queries report, and the text of it. May be used by many threads."""

    def __init__(self) -> None:
        self._queries: dict[str, _Query] = {}
        self._lock = threading.Lock()

    def started(self, query_id: str, name: str | None) -> None:
        """A query runs; the oldest of those that ended go when there are too many."""
        with self._lock:
            query = self._queries.setdefault(query_id, _Query(name or query_id))
            query.is_up = True
            ended = [one for one, known in self._queries.items() if not known.is_up]
            for one in ended[: max(0, len(self._queries) - SPARK_METRICS_QUERIES_MAX)]:
                del self._queries[one]

    def progress(self, report: dict[str, Any]) -> None:
        """Takes over what Spark reports of a batch."""
        with self._lock:
            query = self._queries.setdefault(
                report["id"], _Query(report.get("name") or report["id"])
            )
            query.batches += 1
            query.batch_seconds = report.get("durationMs", {}).get("triggerExecution", 0) / 1000
            for number, source in enumerate(report.get("sources", ())):
                query.rows[number] += max(0, source.get("numInputRows") or 0)
                latest, reached = _offset(source, "latestOffset"), _offset(source, "endOffset")
                query.size_bytes[number] += int(latest.get(BYTES, 0))
                for topic, lag in _lags(reached, latest):
                    query.lag[number, topic] = lag

    def ended(self, query_id: str, *, has_failed: bool) -> None:
        """A query has ended, and its last values stay."""
        with self._lock:
            query = self._queries.get(query_id)
            if query is not None:
                query.is_up = False
                query.failures += has_failed

    def text(self) -> str:
        """In the text format of Prometheus."""
        lines: dict[_Metric, list[str]] = {
            one: [] for one in (_LAG, _ROWS, _BYTES, _BATCHES, _SECONDS, _UP, _FAILURES)
        }
        with self._lock:
            for query in self._queries.values():
                for metric, labels, value in _samples(query):
                    shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
                    lines[metric].append(f"{metric.name}{{{shown}}} {value:.10g}")
        text: list[str] = []
        for metric, samples in lines.items():
            if samples:
                text += [
                    f"# HELP {metric.name} {metric.help}",
                    f"# TYPE {metric.name} {metric.kind}",
                ]
                text += samples
        return "".join(f"{line}\n" for line in text)


def _samples(query: _Query) -> Iterator[tuple[_Metric, dict[str, str], float]]:
    labels = {"query": query.label}
    for (number, topic), lag in query.lag.items():
        yield _LAG, {**labels, "source": str(number), "topic": topic}, lag
    for number, rows in query.rows.items():
        yield _ROWS, {**labels, "source": str(number)}, rows
    for number, size in query.size_bytes.items():
        yield _BYTES, {**labels, "source": str(number)}, size
    yield _BATCHES, labels, query.batches
    yield _SECONDS, labels, query.batch_seconds
    yield _UP, labels, query.is_up
    yield _FAILURES, labels, query.failures


def _offset(source: dict[str, Any], name: str) -> dict[str, Any]:
    """An offset of a source as JSON; nothing for one of another kind."""
    given = source.get(name)
    try:
        parsed = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _lags(reached: dict[str, Any], latest: dict[str, Any]) -> Iterator[tuple[str, int]]:
    try:
        at, ends = StreamOffset.read(reached), StreamOffset.read(latest)
    except (ValueError, AttributeError, TypeError):
        return
    if at is None or ends is None:
        return
    lags: dict[str, int] = defaultdict(int)
    for partition, end in ends.offsets.items():
        lags[partition.topic] += max(0, end - at.offsets.get(partition, 0))
    yield from lags.items()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class Metrics:
    """A running endpoint; it ends by `stop`, or when the session does."""

    def __init__(self, spark: SparkSession, board: Board, host: str, port: int) -> None:
        self._spark = spark
        self._listener = _listener(board)
        self._stopped = threading.Event()

        def handler(*arguments: Any) -> _Handler:
            return _Handler(board, *arguments)

        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        self._server.timeout = SPARK_METRICS_LOOK_SECONDS
        self.port: int = self._server.server_address[1]
        self.url = f"http://{host}:{self.port}{_PATH}"
        self._thread = threading.Thread(target=self._serve, name="kaa metrics", daemon=True)
        self._thread.start()
        spark.streams.addListener(self._listener)

    def stop(self) -> None:
        """Closes the port, and listens to queries no more."""
        if not self._stopped.is_set() and not _has_ended(self._spark):
            self._spark.streams.removeListener(self._listener)
        self._stopped.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._stopped.is_set() and not _has_ended(self._spark):
            self._server.handle_request()
        self._server.server_close()


def _has_ended(spark: Any) -> bool:
    if hasattr(spark, "is_stopped"):
        # Over Spark Connect.
        return bool(spark.is_stopped)
    # What is left of a context that was stopped has no Java in it any more.
    return getattr(spark.sparkContext, "_jsc", None) is None


def serve_metrics(spark: SparkSession, *, host: str = "127.0.0.1", port: int = 0) -> Metrics:
    """Serves the metrics of all queries of a session by HTTP; port 0 takes one that is free."""
    return Metrics(spark, Board(), host, port)


def _listener(board: Board) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's name.
            board.started(str(event.id), event.name)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802  Spark's name.
            board.progress(json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802  Spark's name.
            """What was last reported still holds."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  Spark's name.
            board.ended(str(event.id), has_failed=event.exception is not None)

    return Listener()


class _Handler(BaseHTTPRequestHandler):
    """One request for the text."""

    # A connection that says nothing is closed.
    timeout = SPARK_METRICS_REQUEST_SECONDS_MAX

    def __init__(self, board: Board, *arguments: Any) -> None:
        self._board = board
        super().__init__(*arguments)

    def do_GET(self) -> None:
        is_known = self.path.partition("?")[0] in {_PATH, "/"}
        body = self._board.text().encode() if is_known else b"metrics are at /metrics\n"
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Nobody wants a line for each scrape."""
