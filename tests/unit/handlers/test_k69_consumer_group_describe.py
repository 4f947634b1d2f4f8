from __future__ import annotations

import pytest

from kaa.coordinators.group.java_order import set_order, string_hash
from kaa.handlers import authorized_operations
from kaa.handlers.k69_consumer_group_describe import describe
from kaa.limits import GROUP_SUBSCRIBED_NAMES_MAX, NAMES_ANSWERED_PER_SLICE_MAX
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, topic_id
from tests.unit.handlers.group_requests import committed
from tests.unit.handlers.support import Node
from tests.unit.handlers.test_k68_consumer_group_heartbeat import heartbeat


@pytest.mark.parametrize("version", [0, 1])
def test_groups(version: int) -> None:
    with Node() as node:
        node.load_coordinators()
        node.create_topic("t", partitions=2)
        committed(node, ("t", 0, 1), group="classic")
        node.ask(heartbeat(rack_id="r"))
        request = ConsumerGroupDescribeRequest(group_ids=["g", "classic", "absent", ""])
        groups = {group.group_id: group for group in node.ask(request, version).groups}
        assert groups[""].error_code == Errors.INVALID_GROUP_ID
        assert groups["absent"].error_code == Errors.GROUP_ID_NOT_FOUND
        assert groups["classic"].error_code == Errors.GROUP_ID_NOT_FOUND
        assert groups["absent"].error_message == "Group absent is not there."
        assert groups["classic"].error_message == "Group classic is a classic group."
        group = groups["g"]
        assert (group.group_state, group.group_epoch, group.assignor_name) == (
            "Stable",
            2,
            "uniform",
        )
        (member,) = group.members
        assert (member.member_id, member.rack_id) == ("m", "r")
        assert member.member_type == (1 if version >= 1 else -1)
        assert group.authorized_operations == -(2**31)


def test_what_the_client_may_do() -> None:
    with Node() as node:
        node.load_coordinators()
        node.create_topic("t")
        node.ask(heartbeat())
        request = ConsumerGroupDescribeRequest(
            group_ids=["g", "absent"], include_authorized_operations=True
        )
        groups = {group.group_id: group for group in node.ask(request).groups}
        assert groups["g"].authorized_operations == authorized_operations.GROUP
        assert groups["absent"].authorized_operations == -(2**31)


def test_without_the_feature() -> None:
    with Node() as node:
        node.load_coordinators()
        node.services.image.features["group.version"] = 0
        (group,) = node.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups
        assert (group.group_id, group.error_code) == ("g", Errors.UNSUPPORTED_VERSION)


def test_members_and_epochs() -> None:
    bench = ConsumerBench()
    bench.beat("a", instance="i")
    bench.beat("b", assignor="range")
    bench.beat("a", 2, owned={"t": [0, 1, 2, 3]}, instance="i")
    group = finish(describe(bench.consumer_group(), bench.topics, "uniform"))
    assert (group.error_code, group.group_state) == (Errors.NONE, "Reconciling")
    assert (group.group_epoch, group.assignment_epoch) == (3, 3)
    assert group.assignor_name == "range"
    one, two = group.members
    assert (one.member_id, one.instance_id, one.member_epoch, one.member_type) == ("a", "i", 2, 1)
    assert (one.client_id, one.client_host) == ("client of a", "/127.0.0.1")
    assert one.subscribed_topic_names == ["t"]
    # It still answers for what it is to give up.
    (owned,) = one.assignment.topic_partitions
    assert (owned.topic_id, owned.topic_name) == (topic_id("t"), "t")
    assert sorted(owned.partitions) == [0, 1, 2, 3]
    (target,) = one.target_assignment.topic_partitions
    assert len(target.partitions) == 2
    assert two.assignment.topic_partitions == []
    bench.delete("t")
    group = finish(describe(bench.consumer_group(), bench.topics, "uniform"))
    assert group.members[0].assignment.topic_partitions == []


def test_a_member_of_many_topics_is_described_in_pieces() -> None:
    bench = ConsumerBench()
    names = [f"n{number}" for number in range(GROUP_SUBSCRIBED_NAMES_MAX)]
    bench.beat("a", topics=names)
    described = describe(bench.consumer_group(), bench.topics, "uniform")
    assert sum(1 for _ in described) > len(names) // NAMES_ANSWERED_PER_SLICE_MAX
    group = finish(describe(bench.consumer_group(), bench.topics, "uniform"))
    assert group.members[0].subscribed_topic_names == set_order(sorted(names), string_hash)
