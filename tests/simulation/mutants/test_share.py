"""Mistakes with share groups are found by the tests that are there for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutants.runner import source_path
from tests.simulation.mutants.share import SHARE_MUTANTS, FoundBy

_ROOT = Path(__file__).parents[3]
# Plants the fault by its place in the table, and runs the test over it.
_RUN = """
import importlib
import sys
from tests.simulation.mutants.runner import plant
from tests.simulation.mutants.share import SHARE_MUTANTS

found = SHARE_MUTANTS[int(sys.argv[1])]
plant(found.mutant)
# Before pytest's plugins, of which one puts its own imports first.
importlib.import_module(found.mutant.module)
import pytest

options = ["-q", "--timeout=20", "-p", "no:cacheprovider", "-p", "no:xdist"]
sys.exit(pytest.main([*options, found.test]))
"""
_SECONDS_MAX = 120


@pytest.mark.parametrize("place", range(len(SHARE_MUTANTS)))
def test_it_fits_its_module(place: int) -> None:
    mutant = SHARE_MUTANTS[place].mutant
    source = source_path(mutant).read_text(encoding="utf-8")
    compile(mutant.planted(source), mutant.module, "exec")


@pytest.mark.slow
@pytest.mark.parametrize(
    "found", SHARE_MUTANTS, ids=lambda found: found.mutant.name.replace(" ", "-")
)
def test_it_is_found(found: FoundBy) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(SHARE_MUTANTS.index(found))],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    # One is "some failed": the test ran, and did not find what it must.
    assert done.returncode == 1, done.stdout[-2_000:] + done.stderr[-2_000:]
