from __future__ import annotations

import pytest

from kaa.coordinators.group.share.group import (
    InitialisedTopic,
    ShareGroup,
    ShareMember,
    merged,
    without,
)
from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.timeline import Timeline
from kaa.wire.errors import Errors
from kaa.wire.primitives import Uuid

ONE = Uuid(b"1" * 16)


def test_a_group_with_members_is_stable_and_stays() -> None:
    group = ShareGroup("g", Timeline())
    assert (group.shown_state, group.is_empty) == ("Empty", True)
    group.validate_delete()
    group.members["m"] = ShareMember("m", subscribed_topic_names=frozenset({"t"}))
    group._epochs._timeline.commit(1)
    assert group.shown_state == "Stable"
    assert group.is_subscribed_to("t")
    with pytest.raises(CoordinatorError) as refused:
        group.validate_delete()
    assert refused.value.error is Errors.NON_EMPTY_GROUP
    with pytest.raises(CoordinatorError) as unknown:
        group.member("other")
    assert unknown.value.error is Errors.UNKNOWN_MEMBER_ID


def test_partitions_come_and_go() -> None:
    known = {ONE: InitialisedTopic("t", frozenset({0}))}
    more = merged(known, {ONE: InitialisedTopic("t", frozenset({1}))})
    assert more == {ONE: InitialisedTopic("t", frozenset({0, 1}))}
    assert without(more, {ONE: [1]}) == {ONE: InitialisedTopic("t", frozenset({0}))}
    assert without(more, {ONE: [0, 1]}) == {}
