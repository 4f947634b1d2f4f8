"""What of a client's log a command shows: of errors it tells itself, of what it waits for not."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kaa.cli.client import say

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Saying(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"warning: {record.getMessage()}")


@contextmanager
def client_log(*, is_verbose: bool) -> Iterator[None]:
    """Within it, warnings about partitions without a leader are said, and no others; with
    `is_verbose`, all go where logs go.
    """
    if is_verbose:
        yield
        return
    log, leaders = logging.getLogger("kaa.client"), logging.getLogger("kaa.client.leaders")
    before = log.level, leaders.level, leaders.propagate
    handler = _Saying()
    log.setLevel(logging.ERROR)
    leaders.setLevel(logging.WARNING)
    leaders.addHandler(handler)
    leaders.propagate = False
    try:
        yield
    finally:
        leaders.removeHandler(handler)
        log.setLevel(before[0])
        leaders.setLevel(before[1])
        leaders.propagate = before[2]
