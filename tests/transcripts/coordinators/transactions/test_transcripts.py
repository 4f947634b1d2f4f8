"""The conversations in this folder, held again, must read the same.

`REWRITE_TRANSCRIPTS=1 pytest tests/transcripts` writes what they read like now, for review.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.transcripts.coordinators.transactions.conversation import retell

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_conversation(path: Path) -> None:
    told = retell(path)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(told, "utf-8")
    assert told == path.read_text("utf-8")


def test_there_are_conversations() -> None:
    assert {path.stem for path in FILES} >= {
        "epochs",
        "failures",
        "timeouts",
        "two_phase",
        "version_0",
        "version_2",
    }
