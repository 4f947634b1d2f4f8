"""Spark beside a display of its own: settings without bars and greetings, and a standard error that
does not write into the display.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
# Java itself says it of a module that Spark asks for, and has no switch for it.
_NOISE: Final = "WARNING: Using incubator modules"
_END: Final = "\x04"
_END_WAIT_SECONDS: Final = 1.0


def quiet_config() -> dict[str, str]:
    """What a session takes before its Java starts; later it would be too late for the greetings."""
    return {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    }


class StandardErrorAside:
    """Takes what this process and the Java that it starts write to standard error, line by line.

    The lines go to `write`, which may be set, so that they come out above a display and not in
    the midst of it; `stream` is the terminal or file that they would have gone to. Java keeps its
    end of the pipe until it is gone, which is after this; its last lines are read all the same.
    """

    def __init__(self) -> None:
        sys.stderr.flush()
        self.stream = os.fdopen(os.dup(2), "w", errors="backslashreplace")
        self.write: Callable[[str], object] = self._print
        self._has_ended = threading.Event()

    def __enter__(self) -> Self:
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        os.close(writing)
        threading.Thread(target=self._forward, args=(reading,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        sys.stderr.flush()
        os.write(2, f"{_END}\n".encode())
        os.dup2(self.stream.fileno(), 2)
        self._has_ended.wait(_END_WAIT_SECONDS)

    def hush(self) -> None:
        """Drops what comes from now on: Java's complaints about work that is broken off."""
        self.write = lambda _line: None

    def _forward(self, reading: int) -> None:
        with os.fdopen(reading, errors="replace") as lines:
            for line in lines:
                text = line.rstrip("\n")
                if text and not text.startswith((_NOISE, _END)):
                    self.write(text.removesuffix(_END))
                if text.endswith(_END):
                    self._has_ended.set()

    def _print(self, line: str) -> None:
        print(line, file=self.stream, flush=True)
