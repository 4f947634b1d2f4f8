from __future__ import annotations

from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.share.test_groups import ready


def test_a_group_and_what_is_none() -> None:
    bench = ready(2, "a", "b")
    bench.beat("x", group="other", topics=["t"])
    found = [finish(bench.machine.describe_share_group(one)) for one in ("g", "other", "absent")]
    group = found[0]
    assert (group.group_state, group.assignor_name) == ("Stable", "simple")
    assert [(member.member_id, member.subscribed_topic_names) for member in group.members] == [
        ("a", ["t"]),
        ("b", ["t"]),
    ]
    assert {
        number
        for member in group.members
        for topic in member.assignment.topic_partitions
        for number in topic.partitions
    } == {0, 1}
    assert [one.error_code for one in found[1:]] == [Errors.GROUP_ID_NOT_FOUND] * 2
