"""A committer as a process of its own, killed again and again; then the table is compared."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

from kaa.spark.lake.driver import open_table
from kaa.spark.lake.iceberg.catalog import IcebergLake
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table_state import open_existing, plan_read, read_file
from kaa.testing import Broker, Topic

ROOT = Path(__file__).parents[3]
PROGRAM = "from kaa.cli import main; main()"
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
ROUND_ROWS = 200
BAD_EVERY = 50
SECONDS_MAX = 120.0


def run(broker: Broker, folder: Path, layout: str, seed: int, kills: int) -> None:
    """Fills a topic while its committer is killed so many times; every record is there once."""
    chance = Random(seed)
    topic = broker.topic(partitions=2)
    options = {"valueFormat": "json", "valueSchema": SCHEMA, "maxRecordsPerRound": str(ROUND_ROWS)}
    command = [sys.executable, "-c", PROGRAM, "lake", "run", topic.name]
    command += ["-b", broker.bootstrap_servers, "--layout", layout, "--warehouse", str(folder)]
    command += ["--no-spark", "--interval", "0.05"]
    for name, value in options.items():
        command += ["--option", f"{name}={value}"]
    sent = 0
    for _ in range(kills):
        rounds = chance.randrange(1, 6)
        more = ROUND_ROWS * (rounds + 3)
        topic.seed([_record(number) for number in range(sent, sent + more)])
        sent += more
        _kill_after(command, rounds, chance.uniform(0.0, 0.15))
    done = subprocess.run(
        [*command, "--once"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    given = {"topic": topic.name, "layout": layout, "warehouse": str(folder), **options}
    given["kafka.bootstrap.servers"] = broker.bootstrap_servers
    compare(topic, lake_settings(given))


def _record(number: int) -> dict[str, Any]:
    value = "no number" if number % BAD_EVERY == 0 else json.dumps({"n": number})
    return {"value": value, "partition": number % 2}


def _kill_after(command: list[str], rounds: int, seconds: float) -> None:
    """Starts the committer and kills it a moment after it has reported so many rounds."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    told: list[str] = []
    enough = threading.Event()

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            told.append(line)
            if sum(re.search(r" rows? in ", one) is not None for one in told) >= rounds:
                enough.set()
        enough.set()

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        assert enough.wait(SECONDS_MAX), told
        assert process.poll() is None, told
        threading.Event().wait(seconds)
    finally:
        process.kill()
        process.wait()
        thread.join()
        assert process.stderr is not None
        process.stderr.close()


def compare(topic: Topic, settings: LakeSettings) -> None:
    """Rows of the table and of its dead letters, beside the records of the topic."""
    good, bad = [], []
    for one in topic.records():
        value = one.value or b""
        if value == b"no number":
            bad.append((one.partition, one.offset, value))
        else:
            good.append((one.partition, one.offset, json.loads(value)["n"]))
    options = {"table": settings.table, "layout": settings.layout, "warehouse": settings.store.url}
    plan = plan_read(*open_existing(options))
    rows = [row for file in plan.files for one in read_file(plan, file) for row in one.to_pylist()]
    assert sorted((row["partition"], row["offset"], row["n"]) for row in rows) == sorted(good)
    letters = dead_letters(settings)
    found = [(row["partition"], row["offset"], row["value"]) for row in letters]
    assert sorted(found) == sorted(bad)


def dead_letters(settings: LakeSettings) -> list[dict[str, Any]]:
    return letters_of(open_table(settings))


def letters_of(table: Any) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    if isinstance(table, IcebergLake):
        return list(table.dead.handle.scan().to_arrow().to_pylist())
    files = [path_of(one.url) for one in table.dead_letters()]
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
