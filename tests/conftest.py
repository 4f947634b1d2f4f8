"""Options of every test: hypothesis draws the same examples in each run, without a deadline."""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ["tests.oracle.plugin"]

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("soak", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
