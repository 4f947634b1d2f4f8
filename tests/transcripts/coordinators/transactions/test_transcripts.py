"""The conversations in this folder, held again, must read the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.coordinators.transactions.conversation import Conversation
from tests.transcripts.retelling import check

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_conversation(path: Path) -> None:
    check(path, Conversation().hear)


def test_there_are_conversations() -> None:
    assert {path.stem for path in FILES} >= {
        "epochs",
        "failures",
        "timeouts",
        "two_phase",
        "version_0",
        "version_2",
    }
