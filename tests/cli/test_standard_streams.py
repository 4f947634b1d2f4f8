from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kaa.cli.root import EXIT_FAILED


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["doctor"], ["topic", "-h"]])
def test_an_output_that_is_full_is_named(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", "from kaa.cli import main; main()", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert ended.returncode == EXIT_FAILED
    assert ended.stderr == "error: cannot write to standard output: No space left on device\n"


def test_streams_that_are_closed_take_everything() -> None:
    program = f"{sys.executable} -c 'from kaa.cli import main; main()' version -o json"
    for closed in (">&-", "<&- >&-", ">&- 2>&-"):
        ended = subprocess.run(
            f"{program} {closed}", shell=True, capture_output=True, check=False, timeout=60
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b""), closed
