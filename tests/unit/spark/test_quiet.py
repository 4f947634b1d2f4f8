"""Spark beside a display of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from kaa.spark.quiet import quiet_config

ASIDE = """
import subprocess, sys
from kaa.spark.quiet import StandardErrorAside
java = "import sys; sys.stderr.write('WARNING: Using incubator modules: x\\\\nfrom a child\\\\n')"
aside = StandardErrorAside()
if sys.argv[1] == "collected":
    aside.write = lambda line: print("above:", line, file=aside.stream, flush=True)
with aside:
    subprocess.run([sys.executable, "-c", java], check=True)
    if sys.argv[1] == "hushed":
        aside.hush()
    sys.stderr.write("from here")
sys.stderr.write("after\\n")
"""


def test_the_settings_of_logging_are_there() -> None:
    option = quiet_config()["spark.driver.extraJavaOptions"]
    name, _, url = option.partition("=")
    assert name == "-Dlog4j2.configurationFile"
    assert "logger.spark.level = error" in Path(urlsplit(url).path).read_text()


def said(how: str) -> str:
    command = [sys.executable, "-c", ASIDE, how]
    answer = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    return answer.stderr


def test_standard_error_goes_aside() -> None:
    assert said("printed") == "from a child\nfrom here\nafter\n"
    assert said("hushed").endswith("after\n")
    assert "from here" not in said("hushed")
    assert said("collected") == "above: from a child\nabove: from here\nafter\n"
