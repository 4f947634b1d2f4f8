"""The demo of scripts/up: a node, a generator of clicks, and a pipeline over them.

`examples/pipeline/clicks.yaml` is the pipeline: clicks are counted and summed by minute of event
time into a compacted topic, and land in an Iceberg table. The terminal shows it moving until
Ctrl-C. Node and pipeline are in process groups of their own, so that Ctrl-C reaches this process
alone, which ends the pipeline while it still has its broker.

`--check` runs the same bounded, on a port and in a folder of its own: a known number of clicks,
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
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scripts._environment import SetupError, ensure

if TYPE_CHECKING:
    from kaa.client.sync import Producer

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "pipeline"
KAA = [sys.executable, "-c", "from kaa.cli import main; main()"]
TOPIC, TOTALS, TABLE = "clicks", "clicks-per-minute", "demo.clicks"
CHECK_CLICKS = 20_000
CLICKS_PER_SECOND = 500
START_SECONDS_MAX = 60.0
LOG_LINES_SHOWN = 20
# The last one says that the terminal is closed; children in groups of their own do not hear it.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
# Of a node alone, or the first of a cluster.
ADDRESS = re.compile(
    r"^(?:plaintext +|cluster +\d+ nodes, bootstrap servers )([^\s,]+:\d+)(?:,\S+)?$",
    re.MULTILINE | re.IGNORECASE,
)


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
    """The broker, or a cluster of several, as a child process: `kaa` with these arguments."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self._log = folder / "node.log"
        self._process = start([*KAA, *arguments], self._log)
        try:
            self.address = self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self) -> str:
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            found = ADDRESS.search(self._log.read_text())
            if found is not None and is_open(found[1]):
                return found[1]
            threading.Event().wait(0.05)
        raise SystemExit(f"the broker did not start:\n{self._log.read_text()}")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def printed(self) -> str:
        """What the broker said: where it listens and keeps its data."""
        return self._log.read_text().rstrip()

    def stop(self) -> None:
        end(self._process)


def start(
    command: list[str], log: Path | None, variables: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a child that writes to a log, or where this process writes."""
    with log.open("wb") if log else nullcontext() as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if log else None,
            env=variables,
            process_group=0,
        )


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def create_topics(address: str) -> None:
    from kaa.client.admin.admin import NewTopic
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


def open_producer(address: str) -> Producer:
    from kaa.client.sync import Producer

    return Producer({"bootstrap.servers": address, "linger.ms": "5"})


def send(producer: Producer, clicks: list[dict[str, Any]]) -> None:
    sent = [
        producer.send(TOPIC, json.dumps(one).encode(), key=one["page"].encode()) for one in clicks
    ]
    for one in sent:
        one.result()


class Generator(threading.Thread):
    """Sends clicks of now, until it is stopped or the broker is gone."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._stop_asked = threading.Event()
        self.sent = 0

    def run(self) -> None:
        from kaa.client.errors import ClientError

        first = int(time.time() * 1000)
        with open_producer(self._address) as producer, suppress(ClientError):
            while not self._stop_asked.wait(0.5):
                now = datetime.fromtimestamp(time.time(), UTC)
                numbers = range(first + self.sent, first + self.sent + CLICKS_PER_SECOND // 2)
                send(producer, [click(one, now) for one in numbers])
                self.sent += len(numbers)

    def stop(self) -> None:
        self._stop_asked.set()
        if self.is_alive():
            self.join(10)


class Windows:
    """The last value of each window, as the compacted topic has it."""

    def __init__(self, address: str) -> None:
        from kaa.client.sync import Consumer
        from kaa.model.topics import TopicPartition

        self.found: dict[str, tuple[int, int]] = {}
        self._partition = TopicPartition(TOTALS, 0)
        self._consumer = Consumer({"bootstrap.servers": address})

    def __enter__(self) -> Self:
        self._consumer.__enter__()
        self._consumer.assign([self._partition])
        self._consumer.seek_to_beginning()
        return self

    def __exit__(self, *exception: object) -> None:
        self._consumer.__exit__(*exception)

    def read(self, timeout_ms: int) -> None:
        """Takes over what is new."""
        for records in self._consumer.poll(timeout_ms=timeout_ms).values():
            for record in records:
                value = json.loads(record.value or b"{}")
                key = (record.key or b"").decode()
                self.found[key] = (value["clicks"], value["amount"])

    def read_all(self) -> dict[str, tuple[int, int]]:
        end = self._consumer.end_offsets([self._partition])[self._partition]
        while self._consumer.position(self._partition) < end:
            self.read(timeout_ms=1000)
        return self.found


def pipeline_command(*arguments: str) -> list[str]:
    file = str(EXAMPLE / "clicks.yaml")
    return [*KAA, "pipeline", "run", file, *arguments]


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
        data = ["--data-dir", str(folder / "data")]
        node = Node(folder, ["broker", "start", *data, "--override", listener])
        try:
            create_topics(node.address)
            clicks = [click(number, check_time(number)) for number in range(CHECK_CLICKS)]
            variables = environment(node.address, folder)
            for half in (clicks[: CHECK_CLICKS // 2], clicks[CHECK_CLICKS // 2 :]):
                with open_producer(node.address) as producer:
                    send(producer, half)
                run = subprocess.run(pipeline_command("--once"), check=False, env=variables)
                if run.returncode:
                    return 1  # It has said why.
            problems = differences(node.address, folder, clicks)
        finally:
            node.stop()
    for problem in problems:
        say(problem)
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
    with Windows(address) as windows:
        totals = windows.read_all()
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


def table_rows(folder: Path) -> list[dict[str, Any]]:
    from kaa.spark.lake.table_state import open_existing, plan_read, read_file

    settings, table = open_existing({"table": TABLE, "warehouse": str(folder / "lake")})
    plan = plan_read(settings, table)
    return [
        row for file in plan.files for batch in read_file(plan, file) for row in batch.to_pylist()
    ]


# --- the run that goes on


def show(arguments: list[str]) -> int:
    """Runs until Ctrl-C; the pipeline starts when Spark is installed."""
    storage = ROOT / "kaa-data" / "demo"
    storage.mkdir(parents=True, exist_ok=True)
    node = Node(storage, arguments)
    generator = Generator(node.address)
    try:
        print(f"{node.printed}\n\n{introduction(node.address)}\n", flush=True)
        ensure(["lake"])
        create_topics(node.address)
        generator.start()
        return run_pipeline(node, generator, storage)
    except KeyboardInterrupt:
        return 0
    except SetupError as error:
        say(str(error))
        return 1
    finally:
        ignore_signals()
        generator.stop()
        node.stop()


def introduction(address: str) -> str:
    """What happens, and what else can be tried meanwhile."""
    servers = "" if address.endswith(":9092") else f" -b {address}"
    place = "kaa-data/demo"
    return f"""\
Demo: {CLICKS_PER_SECOND} clicks a second go to the topic {TOPIC}. The pipeline of
examples/pipeline/clicks.yaml counts them by minute into the topic {TOTALS}, and lands
them in the Iceberg table {TABLE}. Ctrl-C ends it; the next start goes on from there.
In another terminal:
  .venv/bin/kaa tail {TOTALS}{servers}
  .venv/bin/kaa pipeline status {place}
  .venv/bin/kaa lake status {TOPIC} --table {TABLE} --warehouse {place}/lake{servers}"""


def run_pipeline(node: Node, generator: Generator, storage: Path) -> int:
    """Runs the pipeline until it is interrupted, and shows it where someone looks."""
    from kaa.cli.progress import is_welcome

    log = storage / "pipeline.log" if is_welcome(sys.stderr) else None
    command = pipeline_command(*(["--quiet"] if log else []))
    pipeline = start(command, log, environment(node.address, storage))
    try:
        if log is not None:
            draw(node, generator, pipeline, storage)
        return pipeline.wait()
    finally:
        ignore_signals()
        say("ending; the data stays in kaa-data, and the next scripts/up goes on from there")
        end(pipeline)
        if log is not None:
            for line in log.read_text().splitlines()[-LOG_LINES_SHOWN:]:
                say(line)


def draw(
    node: Node, generator: Generator, pipeline: subprocess.Popen[bytes], storage: Path
) -> None:
    """Shows the pipeline until it ends."""
    from scripts._demo_screen import DemoScreen

    started_ms = time.time_ns() // 1_000_000
    with DemoScreen(storage, pipeline.pid) as screen, Windows(node.address) as windows:
        screen.rows_before = rows_in_table(storage, started_ms)
        while pipeline.poll() is None:
            if not node.is_running:
                raise SystemExit(f"the broker has ended:\n{node.printed}")
            windows.read(timeout_ms=500)
            screen.show(generator.sent, windows.found)


def rows_in_table(storage: Path, before_ms: int) -> int:
    """How many rows earlier runs have landed."""
    from kaa.spark.lake.table_state import open_existing

    place = storage / "lake"
    if not place.exists():
        return 0
    _, table = open_existing({"table": TABLE, "warehouse": str(place)})
    history = [one for one in table.history() if (one.committed_ms or 0) < before_ms]
    return sum(one.rows for one in table.files(history[-1])) if history else 0


def say(text: str) -> None:
    with suppress(OSError):  # The terminal may be gone, and children are to be ended all the same.
        print(text, file=sys.stderr, flush=True)


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


def ignore_signals() -> None:
    """An impatient second Ctrl-C must not leave children behind; ending them takes seconds."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def main(arguments: list[str]) -> int:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # As nohup wants it.
            signal.signal(number, interrupt)
    try:
        return check() if arguments[:1] == ["--check"] else show(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
