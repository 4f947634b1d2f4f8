from __future__ import annotations

from kaa.coordinators.group.java_order import set_order, string_hash
from kaa.handlers import authorized_operations
from kaa.handlers.k77_share_group_describe import describe
from kaa.limits import GROUP_SUBSCRIBED_NAMES_MAX, NAMES_ANSWERED_PER_SLICE_MAX
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
from tests.unit.coordinators.group.share.test_groups import ready
from tests.unit.handlers.share_requests import share_node
from tests.unit.handlers.test_k76_share_group_heartbeat import joined


def test_groups() -> None:
    with share_node() as node:
        joined(node)
        request = ShareGroupDescribeRequest(
            group_ids=["g", "absent"], include_authorized_operations=True
        )
        groups = {group.group_id: group for group in node.ask(request).groups}
        assert groups["absent"].error_code == Errors.GROUP_ID_NOT_FOUND
        assert groups["g"].authorized_operations == authorized_operations.GROUP
        (member,) = groups["g"].members
        assert (member.member_id, member.client_host) == ("m", "/127.0.0.1")
        node.services.image.features["share.version"] = 0
        (refused, _) = node.ask(request).groups
        assert refused.error_code == Errors.UNSUPPORTED_VERSION


def test_members_and_what_they_read() -> None:
    bench = ready(2, "a", "b")
    group = finish(describe(bench.share_group, bench.topics))
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


def test_a_member_of_many_topics_is_described_in_pieces() -> None:
    bench = ready(1, "a")
    names = [f"n{number}" for number in range(GROUP_SUBSCRIBED_NAMES_MAX)]
    bench.heartbeat_share("a", subscribed_topic_names=names)
    described = describe(bench.share_group, bench.topics)
    assert sum(1 for _ in described) > len(names) // NAMES_ANSWERED_PER_SLICE_MAX
    (member,) = finish(describe(bench.share_group, bench.topics)).members
    assert member.subscribed_topic_names == set_order(sorted(names), string_hash)
