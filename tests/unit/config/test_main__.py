"""`python -m kaa.config`."""

import subprocess
import sys

from kaa.config.reference import reference


def test_it_prints_the_reference() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "kaa.config"], capture_output=True, check=True, text=True
    )
    assert answer.stdout == reference()
    assert answer.stderr == ""
