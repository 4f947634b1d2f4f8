"""The examples run as users run them; each is found in the table of their folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"
# It starts Spark, and runs with the tests of Spark.
SPARK = EXAMPLES / "test_spark_streaming.py"


def test_examples() -> None:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    options = ["-p", "kaa.testing.plugin", "-p", "no:cacheprovider", "-W", "error", "-q"]
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, *options, str(EXAMPLES)]
    command.append(f"--ignore={SPARK}")
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_example_is_told() -> None:
    text = EXAMPLES.joinpath("README.md").read_text()
    names = sorted(path.name for path in EXAMPLES.glob("test_*.py"))
    assert len(names) >= 5
    for name in names:
        assert f"| `{name}` |" in text
