from __future__ import annotations

import json
import platform
import subprocess
import sys

from click.testing import CliRunner

import kaa
from kaa.cli.version import command
from kaa.wire.version import KAFKA_VERSION


def test_text() -> None:
    answer = CliRunner().invoke(command)
    python = platform.python_version()
    expected = f"kaa {kaa.__version__} (speaks Kafka {KAFKA_VERSION}, runs on Python {python})\n"
    assert (answer.exit_code, answer.output) == (0, expected)


def test_json() -> None:
    answer = CliRunner().invoke(command, ["-o", "json"])
    assert json.loads(answer.output) == {
        "kaa": kaa.__version__,
        "kafka": KAFKA_VERSION,
        "python": platform.python_version(),
    }


def test_the_module_is_the_program() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "kaa", "version", "-o", "json"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(answer.stdout)["kaa"] == kaa.__version__
    assert answer.stderr == b""
