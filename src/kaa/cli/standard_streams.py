"""The standard streams of the program, when the shell closed them or cannot take what is written.

An error of the system does not say which file it is about. So standard output writes through a file
that turns its own errors into `OutputError`.
"""

from __future__ import annotations

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any


class OutputError(OSError):
    """Standard output does not take what is written; a pipe that nobody reads is another matter."""


class _Output(FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from error


def open_streams() -> None:
    """A stream that the caller closed (`>&-`) takes everything and gives nothing. Its number is
    taken too, so that no connection gets it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115  For good.
            setattr(sys, name, stream)
    plain = sys.stdout
    if plain is sys.__stdout__ and isinstance(plain, TextIOWrapper):
        sys.stdout = TextIOWrapper(
            BufferedWriter(_Output(plain.fileno(), "wb", closefd=False)),
            encoding=plain.encoding,
            errors=plain.errors,
            line_buffering=plain.line_buffering,
        )
