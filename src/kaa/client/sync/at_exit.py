"""Producers that a program leaves open when it ends.

Their threads end with the interpreter, and records that they have not sent would be lost without a
word. So what waits in them is sent at the end of the program, for a while; a warning says that the
producer was not closed, and another one if records are left.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  It registers its own end, which comes after ours.
import logging
import threading
import weakref
from typing import Protocol

from kaa.limits import CLIENT_EXIT_FLUSH_SECONDS_MAX

_log = logging.getLogger(__name__)


class Unfinished(Protocol):
    """A producer that was started and not closed."""

    def finish(self, seconds_max: float) -> bool:
        """Sends what waits; tells whether that was done in time. Raises what stops it."""


# One for the process, as is its end.
_running: weakref.WeakSet[Unfinished] = weakref.WeakSet()


def watch(producer: Unfinished) -> None:
    """Has it finished at the end of the program, unless it is closed by then."""
    _running.add(producer)


def forget(producer: Unfinished) -> None:
    """It is closed."""
    _running.discard(producer)


def finish_all() -> None:
    """Sends what waits in every producer that is still open."""
    for producer in list(_running):
        _log.warning(
            "the program ends and a producer was not closed; what waits is sent now: "
            "use 'with', or call close()"
        )
        try:
            is_done = producer.finish(CLIENT_EXIT_FLUSH_SECONDS_MAX)
        except Exception as error:  # noqa: BLE001  The next producer has its turn all the same.
            _log.warning("records of a producer that was not closed are lost: %s", error)
        else:
            if not is_done:
                _log.warning(
                    "records of a producer that was not closed are lost: they were not delivered "
                    "within %d s",
                    CLIENT_EXIT_FLUSH_SECONDS_MAX,
                )


# Before the executors are shut down, by which addresses are resolved, where that can be had.
getattr(threading, "_register_atexit", atexit.register)(finish_all)
