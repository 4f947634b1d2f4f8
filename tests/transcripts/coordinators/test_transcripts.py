"""The conversations in this folder, held again, must read the same.

`REWRITE_TRANSCRIPTS=1 pytest tests/transcripts` writes what they read like now, for review.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.transcripts.coordinators.consumer_conversation import ConsumerConversation
from tests.transcripts.coordinators.conversation import Conversation, retell

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_conversation(path: Path) -> None:
    is_consumer = path.stem.startswith("consumer_")
    told = retell(path, ConsumerConversation() if is_consumer else Conversation())
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(told, "utf-8")
    assert told == path.read_text("utf-8")


def test_there_are_conversations() -> None:
    assert {path.stem for path in FILES} >= {
        "consumer_failures",
        "consumer_migration",
        "consumer_rebalance",
        "consumer_regex",
        "consumer_static_members",
        "failures",
        "offsets",
        "rebalance",
        "static_members",
        "timeouts",
    }
