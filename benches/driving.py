"""Starts load drivers and Kafka's own tools, and learns from them what they saw."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final

from kaa.wire.errors import Errors
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kaa.wire.messages.k03_metadata import MetadataRequest
from kaa.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest
from tests.oracle.environment import command
from tests.oracle.maven import jars
from tests.support.raw import RawClient

ROOT: Final = Path(__file__).parents[1]
_LOG4J: Final = ROOT / "tests" / "oracle" / "java" / "log4j2.properties"
DRIVER_SECONDS_MAX: Final = 180.0
CREATE_VERSION: Final = 5
DELETE_VERSION: Final = 5
LIST_OFFSETS_VERSION: Final = 5
METADATA_VERSION: Final = 12
LEADERS_SECONDS_MAX: Final = 120.0
# A client that asks for all of many partitions at once is a load of its own.
ASKED_PARTITIONS_MAX: Final = 50


class DriverFailedError(Exception):
    """A driver ended without a result; the text is the end of what it printed."""


class Driver:
    """A module of `benches.drivers` as a child; connected when the constructor returns."""

    def __init__(
        self,
        module: str,
        task: str,
        parameters: dict[str, Any],
        seconds_max: float = DRIVER_SECONDS_MAX,
    ) -> None:
        # A file, since nobody reads what a chatty one says before it has ended.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  It is closed with the driver.
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"benches.drivers.{module}", task, json.dumps(parameters)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            text=True,
        )
        self._watchdog = _watchdog(self._process, seconds_max)
        if _output(self._process.stdout).readline().strip() != "ready":
            raise self._failed()

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write("\n")
        stdin.flush()

    def result(self) -> dict[str, Any]:
        """Waits for the driver to be done."""
        line = _output(self._process.stdout).readline()
        if not line:
            raise self._failed()
        self.end()
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        self._watchdog.cancel()
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _failed(self) -> DriverFailedError:
        self._process.wait()
        self._errors.seek(0)
        errors = self._errors.read().strip()[-1500:]
        code = self._process.returncode
        self.end()
        return DriverFailedError(errors if code > 0 and errors else f"ended with {code}: {errors}")


def _watchdog(process: subprocess.Popen[str], seconds_max: float) -> threading.Timer:
    """Ends a driver that hangs, so that the time box holds."""
    timer = threading.Timer(seconds_max, process.kill)
    timer.daemon = True
    timer.start()
    return timer


def _output(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


class JavaTool:
    """A tool of Kafka in a JVM of its own."""

    def __init__(self, name: str, *arguments: str, seconds_max: float = DRIVER_SECONDS_MAX) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [
                command("java", "run Kafka's tools"),
                "-Xmx512m",
                f"-Dlog4j2.configurationFile={_LOG4J}",
                "-cp",
                f"{jars()}/*",
                f"org.apache.kafka.tools.{name}",
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._watchdog = _watchdog(self._process, seconds_max)

    @property
    def pid(self) -> int:
        return self._process.pid

    def result(self) -> tuple[str, float]:
        """What it printed, and its processor time."""
        text = _output(self._process.stdout).read()
        self._watchdog.cancel()
        _, status, used = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        _output(self._process.stdout).close()
        if self._process.returncode != 0:
            raise DriverFailedError(f"{self.name} failed: {text.strip()[-1500:]}")
        return text, used.ru_utime + used.ru_stime


_PRODUCED: Final = re.compile(
    r"^(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, "
    r"([\d.]+) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99.9th",
    re.MULTILINE,
)
_TOTAL: Final = re.compile(
    r"^(?:producer|consumer)-metrics:request-total:\S* +: ([\d.]+)", re.MULTILINE
)


def produce_performance(text: str) -> dict[str, float]:
    """Reads the last line of ProducerPerformance."""
    found = _PRODUCED.findall(text)
    if not found:
        raise DriverFailedError(f"ProducerPerformance said: {text[-500:]}")
    records, rate, _, mean, most, p50, p95, p99, p999 = map(float, found[-1])
    return {
        "records": records,
        "seconds": records / rate,
        "records_per_second": rate,
        "tool_mean_ms": mean,
        "tool_p50_ms": p50,
        "tool_p95_ms": p95,
        "tool_p99_ms": p99,
        "tool_p99.9_ms": p999,
        "tool_max_ms": most,
        **_requests(text),
    }


def consume_performance(text: str) -> dict[str, float]:
    """Reads the table of ConsumerPerformance; the time to join the group is left out."""
    lines = [line.split(", ") for line in text.splitlines() if line.count(", ") == 9]
    if len(lines) < 2:
        raise DriverFailedError(f"ConsumerPerformance said: {text[-500:]}")
    row = dict(zip(lines[0], lines[-1], strict=True))
    return {
        "records": float(row["data.consumed.in.nMsg"]),
        "seconds": float(row["fetch.time.ms"]) / 1e3,
        "records_per_second": float(row["fetch.nMsg.sec"]),
        **_requests(text),
    }


def end_to_end_latency(text: str) -> dict[str, float]:
    """Reads the summary of EndToEndLatency."""
    mean = re.search(r"^Avg latency: ([\d.]+) ms", text, re.MULTILINE)
    shares = re.search(
        r"^Percentiles: 50th = (\d+), 99th = (\d+), 99.9th = (\d+)", text, re.MULTILINE
    )
    if mean is None or shares is None:
        raise DriverFailedError(f"EndToEndLatency said: {text[-500:]}")
    return {
        "tool_mean_ms": float(mean[1]),
        **{
            f"tool_p{name}_ms": float(shares[place + 1])
            for place, name in enumerate(("50", "99", "99.9"))
        },
    }


def _requests(text: str) -> dict[str, float]:
    found = _TOTAL.findall(text)
    return {"requests": float(found[-1])} if found else {}


# --- topics


def create_topic(
    bootstrap_servers: str, name: str, partitions: int, configs: dict[str, str] | None = None
) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=key, value=text) for key, text in (configs or {}).items()
        ],
    )
    with RawClient(bootstrap_servers) as client:
        client.socket.settimeout(120)
        answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=120_000), CREATE_VERSION)
        error = Errors.of(answer.topics[0].error_code)
        if error is not Errors.NONE:
            raise DriverFailedError(f"{name} was not created: {error.name}")
    _await_leaders(bootstrap_servers, name, partitions)


def _await_leaders(bootstrap_servers: str, name: str, partitions: int) -> None:
    """Returns when some broker serves each partition: metadata may be ahead of logs."""
    deadline = time.monotonic() + LEADERS_SECONDS_MAX
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(each)) for each in _brokers(bootstrap_servers)]
        for first in range(0, partitions, ASKED_PARTITIONS_MAX):
            asked = range(first, min(first + ASKED_PARTITIONS_MAX, partitions))
            numbers = [ListOffsetsPartition(partition_index=each, timestamp=-1) for each in asked]
            topic = ListOffsetsTopic(name=name, partitions=numbers)
            request = ListOffsetsRequest(replica_id=-1, topics=[topic])
            while not _served(clients, request).issuperset(asked):
                if time.monotonic() > deadline:
                    raise DriverFailedError(f"not every partition of {name} got a leader")
                time.sleep(0.02)


def _brokers(bootstrap_servers: str) -> list[str]:
    with RawClient(bootstrap_servers) as client:
        answer = client.ask(MetadataRequest(topics=[]), METADATA_VERSION)
    return [f"{broker.host}:{broker.port}" for broker in answer.brokers]


def _served(clients: list[RawClient], request: ListOffsetsRequest) -> set[int]:
    """The partitions that one of the brokers answers for."""
    answers = [client.ask(request, LIST_OFFSETS_VERSION) for client in clients]
    return {
        part.partition_index
        for answer in answers
        for topic in answer.topics
        for part in topic.partitions
        if not part.error_code
    }


def delete_topics(bootstrap_servers: str, names: list[str]) -> None:
    with RawClient(bootstrap_servers) as client:
        client.socket.settimeout(120)
        client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=60_000), DELETE_VERSION)
