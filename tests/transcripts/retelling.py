"""Conversations as text files: a command, a line of dashes, and what came of it up to a blank line.

`REWRITE_TRANSCRIPTS=1 pytest tests/transcripts` writes what they read like now, for review.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path


def check(path: Path, hear: Callable[[str], Iterable[str]]) -> None:
    """Holds a conversation again, which must read the same."""
    retold = retell(path, hear)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(retold, "utf-8")
    assert retold == path.read_text("utf-8")


def retell(path: Path, hear: Callable[[str], Iterable[str]]) -> str:
    """The text of a conversation with the output as it is now."""
    retold: list[str] = []
    is_output = False
    for line in path.read_text("utf-8").splitlines():
        if is_output:
            is_output = bool(line)
            if is_output:
                continue
        if not line or line.startswith("#"):
            retold.append(line)
        elif line == "----":
            is_output = True
        else:
            retold += [line, "----", *hear(line)]
    return "\n".join(retold).rstrip("\n") + "\n"
