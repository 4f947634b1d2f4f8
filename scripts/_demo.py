"""The demo of scripts/up: a node, a generator of clicks, and a pipeline over them.

``examples/pipeline/clicks.yaml`` is the pipeline: clicks are counted and summed by minute of event
time into a compacted topic, and land in an Iceberg table. The terminal shows it moving until
Ctrl-C.

``--check`` runs the same bounded, on a port and in a folder of its own: a known number of clicks,
in two halves with a run of the pipeline after each, so that the second goes on from what the first
has kept. Then the last value of each window, counts, sums and duplicates are compared with what was
sent, and it ends with 0 if all fit.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from scripts._environment import ensure

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "pipeline"
PROGRAM = "from kaa.cli import main; main()"
TOPIC, TOTALS = "clicks", "clicks-per-minute"
CHECK_CLICKS = 20_000
CLICKS_PER_SECOND = 500
START_SECONDS_MAX = 60.0
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
ADDRESS = re.compile(r"^plaintext +(\S+:\d+)$", re.MULTILINE | re.IGNORECASE)


def click(number: int, at: datetime) -> dict[str, Any]:
    """A click; everything about it follows from its number and its time."""
    return {
        "id": number,
        "page": f"/page/{number * 7 % 13}",
        "amount": number * 31 % 100,
        "at": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }


def check_time(number: int) -> datetime:
    """Ten clicks a second, each up to seven seconds late."""
    return FIRST + timedelta(milliseconds=100 * number - number * 37 % 7 * 1000)


class Node:
    """The broker as a child process."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self._log = folder / "node.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "broker", "start", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.address = self._wait()

    def _wait(self) -> str:
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            found = ADDRESS.search(self._log.read_text())
            if found is not None and is_open(found[1]):
                return found[1]
            threading.Event().wait(0.05)
        self.stop()
        raise SystemExit(f"the broker did not start:\n{self._log.read_text()}")

    @property
    def printed(self) -> str:
        """What the broker said: where it listens and keeps its data."""
        return self._log.read_text().rstrip()

    def stop(self) -> None:
        end(self._process)


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def create_topics(address: str) -> None:
    from kaa.client.admin import NewTopic
    from kaa.client.sync import Admin

    wanted = [
        NewTopic(TOPIC, 3, 1, {}),
        NewTopic(TOTALS, 1, 1, {"cleanup.policy": "compact"}),
    ]
    with Admin({"bootstrap.servers": address}) as admin:
        outcome = admin.run(lambda one: one.create_topics(wanted))
    for name, error in outcome.items():
        if error is not None and error.error.name != "TOPIC_ALREADY_EXISTS":
            raise SystemExit(f"topic {name}: {error}")


def send(address: str, clicks: list[dict[str, Any]]) -> None:
    from kaa.client.sync import Producer

    with Producer({"bootstrap.servers": address, "linger.ms": "5"}) as producer:
        sent = [
            producer.send(TOPIC, json.dumps(one).encode(), key=one["page"].encode())
            for one in clicks
        ]
        for one in sent:
            one.result()


def generate(address: str, stop: threading.Event) -> None:
    """Clicks of now, until it is stopped."""
    number = int(time.time() * 1000)
    while not stop.wait(0.5):
        now = datetime.fromtimestamp(time.time(), UTC)
        send(address, [click(number + one, now) for one in range(CLICKS_PER_SECOND // 2)])
        number += CLICKS_PER_SECOND


def pipeline_command(*arguments: str) -> list[str]:
    file = str(EXAMPLE / "clicks.yaml")
    return [sys.executable, "-c", PROGRAM, "pipeline", "run", file, *arguments]


def environment(address: str, storage: Path) -> dict[str, str]:
    return {
        **os.environ,
        "KAA_DEMO_SERVERS": address,
        "KAA_DEMO_STORAGE": str(storage),
        "KAA_DEMO_FOLDER": str(EXAMPLE),
        "PYSPARK_PYTHON": sys.executable,
    }


# --- the bounded run


def check() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        listener = f"listeners=PLAINTEXT://127.0.0.1:{port}"
        node = Node(folder, ["--data-dir", str(folder / "data"), "--override", listener])
        try:
            create_topics(node.address)
            clicks = [click(number, check_time(number)) for number in range(CHECK_CLICKS)]
            variables = environment(node.address, folder)
            for half in (clicks[: CHECK_CLICKS // 2], clicks[CHECK_CLICKS // 2 :]):
                send(node.address, half)
                run = subprocess.run(pipeline_command("--once"), check=False, env=variables)
                if run.returncode:
                    return 1  # It has said why.
            problems = differences(node.address, folder, clicks)
        finally:
            node.stop()
    for problem in problems:
        print(problem, file=sys.stderr)
    minutes = len(expected_totals(clicks))
    if not problems:
        print(f"{CHECK_CLICKS} clicks, {minutes} windows: counts, sums and rows are as sent")
    return 1 if problems else 0


def expected_totals(clicks: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for one in clicks:
        minute = one["at"][:16] + "Z"
        counts[minute] += 1
        sums[minute] += one["amount"]
    return {minute: (counts[minute], sums[minute]) for minute in counts}


def differences(address: str, folder: Path, clicks: list[dict[str, Any]]) -> list[str]:
    """What is not as it was sent."""
    found = []
    totals = last_values(address)
    expected = expected_totals(clicks)
    if totals != expected:
        both = expected.keys() | totals.keys()
        wrong = {one for one in both if expected.get(one) != totals.get(one)}
        first = min(wrong)
        found.append(
            f"{len(wrong)} windows differ, the first is {first}: "
            f"sent {expected.get(first)}, found {totals.get(first)}"
        )
    rows = table_rows(folder)
    places = {(row["partition"], row["offset"]) for row in rows}
    if len(rows) != len(clicks):
        found.append(f"the table has {len(rows)} rows, {len(clicks)} were sent")
    if len(places) != len(rows):
        found.append(f"{len(rows) - len(places)} rows are there twice")
    if {row["id"] for row in rows} != {one["id"] for one in clicks}:
        found.append("the table has other clicks than were sent")
    amounts = sum(row["amount"] for row in rows), sum(one["amount"] for one in clicks)
    if amounts[0] != amounts[1]:
        found.append(f"the amounts of the table add up to {amounts[0]}, not {amounts[1]}")
    return found


def last_values(address: str) -> dict[str, tuple[int, int]]:
    from kaa.client.metadata import TopicPartition
    from kaa.client.sync import Consumer

    found: dict[str, tuple[int, int]] = {}
    partition = TopicPartition(TOTALS, 0)
    with Consumer({"bootstrap.servers": address}) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        position = 0
        while position < end:
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    value = json.loads(record.value or b"{}")
                    key = (record.key or b"").decode()
                    found[key] = (value["clicks"], value["amount"])
                    position = record.offset + 1
    return found


def table_rows(folder: Path) -> list[dict[str, Any]]:
    from kaa.spark.lake.reading import open_existing, plan_read, read_file

    options = {"table": "demo.clicks", "warehouse": str(folder / "lake")}
    settings, table = open_existing(options)
    plan = plan_read(settings, table)
    return [row for url in plan.urls for batch in read_file(plan, url) for row in batch.to_pylist()]


# --- the run that goes on


def show(arguments: list[str]) -> int:
    """Runs until Ctrl-C; the pipeline starts when Spark is installed."""
    storage = ROOT / "kaa-data" / "demo"
    storage.mkdir(parents=True, exist_ok=True)
    node = Node(storage, arguments)
    print(node.printed, flush=True)
    stop = threading.Event()
    generator = threading.Thread(target=generate, args=(node.address, stop), daemon=True)
    pipeline = None
    try:
        ensure(["lake"])
        create_topics(node.address)
        generator.start()
        pipeline = subprocess.Popen(pipeline_command(), env=environment(node.address, storage))
        return pipeline.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        stop.set()
        if pipeline is not None:
            end(pipeline)
        if generator.is_alive():
            generator.join(10)
        node.stop()


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a child as its user would, and by force if it takes too long."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, interrupt)
    return check() if arguments[:1] == ["--check"] else show(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
