"""Runs a pipeline: a streaming query for each topic or table that a step is written to, and a
committer for each table of a topic.

With `availableNow` the queries end when they have read what was there, and then the tables are
brought up to date, so that a table of a topic that the pipeline itself writes has all of it.
Otherwise all run until they are stopped. When one fails, the others are stopped, and the run fails.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kaa.client.errors import ClientError
from kaa.limits import PIPELINE_LOOK_SECONDS, PIPELINE_SIZES_SECONDS
from kaa.spark.brokers import brokers_of
from kaa.spark.lake.driver import LakeDriver, open_table
from kaa.spark.lake.running import SparkRunner
from kaa.spark.lake.settings import lake_settings
from kaa.spark.lookup import Lookup
from kaa.spark.options import source_options
from kaa.spark.pipeline.frames import build, rows_for_topic
from kaa.spark.pipeline.progress import PartStatus, update_from_progress, write_status
from kaa.spark.pipeline.spec import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.spark.lake.driver import RoundReport
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.pipeline.spec import Pipeline, Sink

    Show = Callable[[list[PartStatus]], None]

# What the options of a source begin with that say how its records are decoded.
_FORMATS: Final = ("value", "key", "schemaregistry.")


def table_settings(pipeline: Pipeline, sink: Sink) -> LakeSettings:
    """The table of a topic."""
    found = pipeline.topic_of(sink.origin)
    assert found is not None, "a checked pipeline"
    formats = {
        name: value for name, value in found.options.items() if name.lower().startswith(_FORMATS)
    }
    named = {"topic": found.topic, "table": sink.table, "mode": sink.mode}
    return lake_settings({**pipeline.kafka_options, **formats, **named, **sink.options})


class PipelineRun:
    """One run of a pipeline, until all is done or `stop` is set."""

    def __init__(
        self, spark: Any, pipeline: Pipeline, show: Show, stop: threading.Event | None = None
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._show = show
        self._storage = Path(pipeline.storage)
        self._stop = stop or threading.Event()
        self._queries: list[tuple[PartStatus, Any]] = []
        self._tables: list[tuple[PartStatus, Sink]] = []
        self._threads: list[threading.Thread] = []
        self._sizes: dict[str, float] = {}
        self._sizes_until = 0.0
        self.parts: list[PartStatus] = []

    def run(self) -> None:
        """Runs until all is done or stopped; raises PipelineError if a part failed."""
        try:
            self._start()
            while not self._step():
                self._look()
                self._stop.wait(PIPELINE_LOOK_SECONDS)
        finally:
            self._end()
        failed = [f"{one.name}: {one.error}" for one in self.parts if one.error]
        if failed:
            raise PipelineError("\n".join(failed))

    # --- parts

    def _start(self) -> None:
        frames = build(self._spark, self._pipeline)
        for sink in self._pipeline.sinks:
            part = PartStatus(sink.name, "topic" if sink.topic is not None else "table")
            self.parts.append(part)
            if sink.table is not None and self._pipeline.topic_of(sink.origin) is not None:
                self._tables.append((part, sink))
            else:
                self._queries.append((part, self._query(sink, frames[sink.origin])))
        if not self._pipeline.available_now:
            self._start_tables()

    def _query(self, sink: Sink, frame: Any) -> Any:
        checkpoint = self._storage / "_checkpoints" / sink.name
        if sink.topic is not None:
            frame, kind = rows_for_topic(frame, sink), "kaa"
            options = {**self._pipeline.kafka_options, "topic": sink.topic, **sink.options}
        else:
            kind, options = "kaa_table", {"table": str(sink.table), **sink.options}
        writer = (
            frame.writeStream.queryName(f"{self._pipeline.name}.{sink.name}")
            .outputMode(sink.mode)
            .option("checkpointLocation", str(checkpoint))
        )
        if sink.mode == "update":
            writer = writer.foreachBatch(_batch_writer(options, checkpoint))
        else:
            writer = writer.format(kind).options(**options)
        if self._pipeline.available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=self._pipeline.processing_time).start()

    def _start_tables(self) -> None:
        for part, sink in self._tables:
            thread = threading.Thread(target=self._land, args=(part, sink), name=part.name)
            self._threads.append(thread)
            thread.start()

    def _land(self, part: PartStatus, sink: Sink) -> None:
        def report(one: RoundReport) -> None:
            part.state = "running"
            part.rows += one.rows
            part.batch += 1
            part.batch_seconds = one.seconds
            part.rows_per_second = one.rows / one.seconds if one.seconds else 0.0
            part.size_bytes_per_second = one.size_bytes / one.seconds if one.seconds else 0.0
            part.lag = {sink.origin: one.lag}

        try:
            settings = table_settings(self._pipeline, sink)
            self._ensure_topic(settings.topic)
            table, runner = open_table(settings), SparkRunner(self._spark)
            once = self._pipeline.available_now
            LakeDriver(table, runner, is_once=once, report=report, stop=self._stop).run()
        except Exception as error:  # noqa: BLE001  The run tells it, and stops the other parts.
            part.error = str(error) or type(error).__name__
        done = "stopped" if self._stop.is_set() else "done"
        part.state = "failed" if part.error else done

    def _ensure_topic(self, topic: str) -> None:
        """One that the pipeline itself writes may not be there yet: it is made as the first row
        would make it.
        """
        if topic in {sink.topic for sink in self._pipeline.sinks}:
            options = {**self._pipeline.kafka_options, "subscribe": topic}
            brokers = brokers_of(source_options(options, is_stream=False).settings)
            brokers.call(brokers.cluster.topic(topic, brokers.timeout_ms, create=True))

    # --- looking

    def _step(self) -> bool:
        """Starts the tables once the streams have ended; whether all of it is over."""
        if self._stop.is_set() or any(one.error for one in self.parts):
            return True
        if any(query.isActive for _, query in self._queries):
            return False
        if self._pipeline.available_now and not self._threads and self._tables:
            self._look()
            if any(one.error for one in self.parts):
                return True
            self._start_tables()
        return not any(thread.is_alive() for thread in self._threads)

    def _look(self) -> None:
        for part, query in self._queries:
            for progress in query.recentProgress:
                text = progress if isinstance(progress, dict) else json.loads(progress.json)
                if text["batchId"] >= part.batch:
                    update_from_progress(part, text, self._record_bytes())
            if not query.isActive and part.state in {"starting", "running"}:
                problem = query.exception()
                part.error = None if problem is None else _first_line(str(problem))
                part.state = "failed" if part.error else "done"
        self._tell(is_running=True)

    def _tell(self, *, is_running: bool) -> None:
        write_status(self._storage, self._pipeline.name, self.parts, is_running=is_running)
        self._show(self.parts)

    def _record_bytes(self) -> dict[str, float]:
        """The mean stored size of the records of each topic that is read, looked up now and then;
        a cluster that does not tell sizes is asked no further.
        """
        now = time.monotonic()
        if now >= self._sizes_until:
            self._sizes_until = now + PIPELINE_SIZES_SECONDS
            for source in self._pipeline.sources:
                if source.topic is not None:
                    options = {**self._pipeline.kafka_options, "subscribe": source.topic}
                    lookup = Lookup(source_options(options, is_stream=False))
                    try:
                        self._sizes[source.topic] = lookup.mean_record_bytes()
                    except ClientError:
                        self._sizes_until = float("inf")
        return self._sizes

    def _end(self) -> None:
        self._stop.set()
        for part, query in self._queries:
            if query.isActive:
                part.state = "stopping"
        self._show(self.parts)
        for part, query in self._queries:
            if part.state == "stopping":
                query.stop()
        for thread in self._threads:
            thread.join()
        self._look()
        for part in self.parts:
            if part.state in {"starting", "stopping"}:
                part.state = "stopped"
        self._tell(is_running=False)


def _batch_writer(options: dict[str, str], checkpoint: Path) -> Callable[[Any, int], None]:
    """Writes the batches of a mode that Spark lets no Python sink have.

    Exactly once needs a name for each batch: the id of the query, which a new checkpoint makes
    again, and the number of the batch.
    """
    is_exactly_once = options.get("exactlyOnce", "false").lower() == "true"

    def write(batch: Any, number: int) -> None:
        writer = batch.write.format("kaa").mode("append").options(**options)
        if is_exactly_once:
            query = json.loads((checkpoint / "metadata").read_text())["id"]
            writer = writer.option("txnAppId", query).option("txnVersion", str(number))
        writer.save()

    return write


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:500] if text.strip() else "failed"
