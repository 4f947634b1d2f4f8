"""The Spark fixtures of the pytest plugin, through the example that shows them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.programs import JAVA_OPTIONS

EXAMPLE = Path(__file__).parents[2] / "examples" / "test_spark_streaming.py"


@pytest.mark.xdist_group("spark testing")
@pytest.mark.timeout(300)
def test_a_streaming_job_is_tested_with_the_fixtures() -> None:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["JDK_JAVA_OPTIONS"] = JAVA_OPTIONS
    options = ["-p", "kaa.testing.plugin", "-p", "no:cacheprovider", "-W", "error", "-q"]
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, *options, str(EXAMPLE)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
