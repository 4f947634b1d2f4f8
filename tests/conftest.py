"""Options of every test: hypothesis draws the same examples in each run, without a deadline, and
no process that a test has started outlives the run (`tests/support/children.py`).
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.support.children import Reaper

pytest_plugins = ["tests.oracle.plugin"]

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("soak", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_configure(config: pytest.Config) -> None:
    # Workers share what one of them has started, and bear the mark of the run that started them.
    if not hasattr(config, "workerinput"):
        config.add_cleanup(Reaper().close)
