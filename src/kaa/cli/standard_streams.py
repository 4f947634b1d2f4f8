"""The standard streams of the program, when the shell closed them or cannot take what is written.

Text that is written to a terminal is escaped where it would steer it.

An error of the system does not say which file it is about. So standard output writes through a file
that turns its own errors into `OutputError`. What is said on standard error is lost where nobody
can take it, and the command goes on: what it did counts, and its exit code tells of it.
"""

from __future__ import annotations

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any

from kaa.cli.visible import visible_but_styles


class _Text(TextIOWrapper):
    """On a terminal, text of others is escaped (`visible`)."""

    def write(self, text: str, /) -> int:
        super().write(visible_but_styles(text) if self.isatty() else text)
        return len(text)

    def steer(self, text: str) -> None:
        super().write(text)


class OutputError(OSError):
    """Standard output does not take what is written; a pipe that nobody reads is another matter."""


class _Stream(FileIO):
    # Whether the reader of a pipe is gone. That is said once: what could not be written is tried
    # again when the program ends.
    _is_broken = False

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            if not self._is_broken:
                self._is_broken = True
                raise
            return memoryview(data).nbytes


class _Output(_Stream):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from error


class _Errors(_Stream):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError:
            return memoryview(data).nbytes


def open_streams() -> None:
    """A stream that the caller closed (`>&-`) takes everything and gives nothing. Its number is
    taken too, so that no connection gets it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115  For good.
            setattr(sys, name, stream)
    for name, file in (("stdout", _Output), ("stderr", _Errors)):
        plain = getattr(sys, name)
        if plain is getattr(sys, f"__{name}__") and isinstance(plain, TextIOWrapper):
            stream = _Text(
                BufferedWriter(file(plain.fileno(), "wb", closefd=False)),
                encoding=plain.encoding,
                errors=plain.errors,
                line_buffering=plain.line_buffering,
            )
            setattr(sys, name, stream)
