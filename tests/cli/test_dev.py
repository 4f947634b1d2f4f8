from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from click.testing import CliRunner

from kaa.cli.dev import GROUP
from kaa.cli.root import root
from kaa.cli.samples import CUSTOMERS, TOPICS

PROGRAM = "from kaa.cli import main; main()"


def kaa(*arguments: str) -> str:
    answer = CliRunner().invoke(root, list(arguments))
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_playground(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "dev", "--port", "0", "--rate", "200"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        assert process.stderr is not None
        facts: dict[str, str] = {}
        while "try" not in facts:
            line = process.stderr.readline()
            assert line, facts
            name, _, rest = line.partition(" ")
            facts[name] = rest.strip()
        servers = ["-b", facts["plaintext"]]
        assert facts["topics"].split(", ") == [topic.name for topic in TOPICS]
        assert facts["try"] == f"kaa tail orders -b {facts['plaintext']}"
        assert kaa("topic", "list", "-o", "name", *servers).split() == sorted(
            topic.name for topic in TOPICS
        )
        assert len(kaa("consume", "customers", "-n", str(CUSTOMERS), *servers).splitlines())
        (order,) = kaa("tail", "orders", "-n", "1", "-o", "jsonl", *servers).splitlines()
        assert json.loads(json.loads(order)["value"])["id"].startswith("order-")
        # The group reads as soon as it has joined.
        deadline = time.monotonic() + 30
        while GROUP not in kaa("group", "list", "-o", "name", *servers).split():
            assert time.monotonic() < deadline, "the group never joined"
        looks = kaa(
            "group", "watch", GROUP, "--interval", "0.5", "-n", "6", "-o", "jsonl", *servers
        )
        rows = [json.loads(line) for line in looks.splitlines()]
        assert any(row["read_rate"] for row in rows), rows
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(30) == 0
        assert rest.endswith("stopped\n"), rest
    finally:
        process.kill()
        process.communicate()
    assert list(tmp_path.iterdir()) == []
