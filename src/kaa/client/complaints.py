"""Warnings about what goes wrong again and again, without flooding the log.

A client that cannot reach a broker tries about once a second, for as long as it lives. The first
failure is worth a warning, and another one every `CLIENT_COMPLAINT_INTERVAL_MS` while it lasts.
What often passes at once, such as a topic that is being created, is worth one only after it
happened a few times. When the trouble is over, the log says so, if it spoke of it before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import CLIENT_COMPLAINT_INTERVAL_MS, CLIENT_COMPLAINTS_MAX

if TYPE_CHECKING:
    import logging
    from collections.abc import Hashable

    from kaa.model.seams import Clock


class _Complaint:
    __slots__ = ("count", "said_ms")

    def __init__(self) -> None:
        # How often it happened in a row.
        self.count = 0
        # When it was said last; None: not yet.
        self.said_ms: float | None = None


class Complaints:
    """The troubles that a client has now, by what they are about."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._open: dict[Hashable, _Complaint] = {}

    def warn(self, about: Hashable, text: str, *arguments: object, after: int = 1) -> None:
        """Says it, unless it was said of late or has happened fewer than `after` times."""
        found = self._open.get(about)
        if found is None:
            if len(self._open) >= CLIENT_COMPLAINTS_MAX:
                del self._open[next(iter(self._open))]
            found = self._open[about] = _Complaint()
        found.count += 1
        now_ms = self._clock.monotonic_ms()
        is_new = found.said_ms is None or now_ms - found.said_ms >= CLIENT_COMPLAINT_INTERVAL_MS
        if found.count >= after and is_new:
            found.said_ms = now_ms
            self._log.warning(text, *arguments, stacklevel=2)

    def settle(self, about: Hashable, text: str, *arguments: object) -> None:
        """Forgets a trouble, and says so if it was spoken of."""
        found = self._open.pop(about, None)
        if found is not None and found.said_ms is not None:
            self._log.info(text, *arguments, stacklevel=2)
