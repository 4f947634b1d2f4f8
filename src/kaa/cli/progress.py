"""Progress of what takes long: one line on a terminal, with rate and time left.

Nothing is shown for the first half second, nothing if standard error is not a terminal, and nothing
where a program reads along (`CI` and `TERM=dumb` say so, `NO_COLOR` does not) or where
`--no-progress` says so. The line is gone when the work is done.

A line that is longer than the terminal is wide would wrap, and every redraw would then leave a line
above it. So it is made to fit: the bar goes first, then the end of the line.
"""

from __future__ import annotations

import os
import sys
import time
from typing import IO, TYPE_CHECKING, Final, Self

from kaa.cli.output import NO_PROGRESS_KEY, is_asked
from kaa.cli.visible import steer, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_QUIET_SECONDS: Final = 0.5
_REDRAW_SECONDS: Final = 0.1
_BAR_COLUMNS: Final = 24
_COLUMNS_UNKNOWN: Final = 80


def is_welcome(stream: IO[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether someone looks at progress there."""
    if environment.get("TERM") == "dumb" or "CI" in environment:
        return False
    return "KAA_NO_PROGRESS" not in environment and stream.isatty()


def progress_line(
    what: str, unit: str, done: int, total: int | None, seconds: float, columns: int
) -> str:
    """What is shown after this many seconds, in at most this many columns."""
    rate = done / seconds if seconds > 0 else 0.0
    if not total:
        counted = unit.removesuffix("s") if done == 1 else unit
        return f"{what} {done:,} {counted}, {rate:,.0f}/s"[:columns]
    part = min(1.0, done / total)
    full = int(part * _BAR_COLUMNS)
    bar = "━" * full + "─" * (_BAR_COLUMNS - full)
    left = duration_text((total - done) / rate) if rate > 0 and done < total else "0 s"
    counts = f"{done:,} of {total:,} {unit}, {rate:,.0f}/s, {left} left"
    whole = f"{what} {bar} {part:4.0%}  {counts}"
    return whole if len(whole) <= columns else f"{what} {part:.0%}  {counts}"[:columns]


def columns_of(stream: IO[str]) -> int:
    """How long a line may be there: the last column stays free, since some terminals wrap at it."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        width = 0
    return (width or _COLUMNS_UNKNOWN) - 1


def duration_text(seconds: float) -> str:
    """A duration for people, with its two greatest units."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


class Progress:
    """Counts what is done, and shows it.

    with Progress("reading", "records", total=1000) as progress:
        progress.advance(10)
    """

    def __init__(
        self,
        what: str,
        unit: str,
        total: int | None = None,
        *,
        stream: IO[str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        is_shown: bool | None = None,
    ) -> None:
        self._what = what
        self._unit = unit
        self.total = total
        self.done = 0
        self._stream = stream or sys.stderr
        self._monotonic = monotonic
        if is_shown is None:
            is_shown = is_welcome(self._stream) and not is_asked(NO_PROGRESS_KEY)
        # May be switched off later.
        self.is_shown = is_shown
        self._started = monotonic()
        self._next = self._started + _QUIET_SECONDS
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.clear()

    def advance(self, count: int = 1) -> None:
        """So many more are done."""
        self.done += count
        if self.is_shown:
            now = self._monotonic()
            if now >= self._next:
                self._draw(now)

    def _draw(self, now: float) -> None:
        self._next = now + _REDRAW_SECONDS
        seconds = now - self._started
        columns = columns_of(self._stream)  # A window may change its size.
        line = progress_line(self._what, self._unit, self.done, self.total, seconds, columns)
        steer(self._stream, f"\r{visible(line, one_line=True)}\x1b[K")
        self._stream.flush()
        self._is_drawn = True

    def clear(self) -> None:
        """Takes the line away, so that something else can be printed."""
        if self._is_drawn:
            steer(self._stream, "\r\x1b[K")
            self._stream.flush()
            self._is_drawn = False
