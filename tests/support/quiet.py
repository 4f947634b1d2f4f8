"""Silence for runs in which warnings are expected by the thousand."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Kaa says nothing meanwhile; other tests hear it again afterwards."""
    logger = logging.getLogger("kaa")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
