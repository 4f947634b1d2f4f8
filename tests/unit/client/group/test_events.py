from __future__ import annotations

from kaa.client.group.events import Assign, Effect, MemberState, Revoke
from kaa.model.topics import TopicPartition

ONE = (TopicPartition("t", 0),)


def test_effects_can_be_compared_and_told_apart() -> None:
    effects: list[Effect] = [Revoke(ONE), Revoke(ONE, is_lost=True), Assign(ONE, ())]
    assert effects[0] == Revoke(ONE)
    assert effects[0] != effects[1]
    assert [type(one).__name__ for one in effects] == ["Revoke", "Revoke", "Assign"]
    assert len({state.value for state in MemberState}) == len(MemberState)
