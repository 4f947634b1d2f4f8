"""The conversations in this folder, held again, must read the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.coordinators.consumer_conversation import ConsumerConversation
from tests.transcripts.coordinators.conversation import Conversation
from tests.transcripts.retelling import check

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_conversation(path: Path) -> None:
    is_consumer = path.stem.startswith("consumer_")
    conversation = ConsumerConversation() if is_consumer else Conversation()
    check(path, conversation.hear)


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
