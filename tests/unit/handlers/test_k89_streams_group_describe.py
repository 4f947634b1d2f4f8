from __future__ import annotations

from kaa.handlers import authorized_operations
from kaa.handlers.k89_streams_group_describe import describe
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k88_streams_group_heartbeat import Endpoint, KeyValue
from kaa.wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest
from tests.unit.coordinators.group.streams.bench import StreamsBench, info, subtopology, topology
from tests.unit.handlers.support import Node
from tests.unit.handlers.test_k88_streams_group_heartbeat import heartbeat, ready


def test_groups() -> None:
    with Node() as node:
        ready(node)
        node.ask(heartbeat())
        request = StreamsGroupDescribeRequest(
            group_ids=["g", "absent", ""], include_authorized_operations=True
        )
        groups = {group.group_id: group for group in node.ask(request).groups}
        assert groups["absent"].error_code == Errors.GROUP_ID_NOT_FOUND
        assert groups[""].error_code == Errors.INVALID_GROUP_ID
        assert groups["g"].authorized_operations == authorized_operations.GROUP
        (member,) = groups["g"].members
        assert (member.member_id, member.client_host) == ("m", "/127.0.0.1")
        node.services.image.features["streams.version"] = 0
        refused = node.ask(request).groups[0]
        assert refused.error_code == Errors.UNSUPPORTED_VERSION


def test_topology_and_members() -> None:
    bench = StreamsBench()
    stateful = topology(subtopology(state_changelog_topics=[info("c")]))
    bench.ask(
        topology=stateful,
        user_endpoint=Endpoint(host="h", port=1),
        client_tags=[KeyValue(key="zone", value="z")],
    )
    group = finish(describe(bench.streams_group))
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("NotReady", 2, 2)
    assert group.topology is not None
    assert group.topology.subtopologies is not None
    assert group.topology.subtopologies[0].state_changelog_topics[0].partitions == 0
    bench.create("c", 4)
    bench.ask("m", 2, {})
    group = finish(describe(bench.streams_group))
    assert group.group_state == "Stable"
    assert group.topology is not None
    assert group.topology.subtopologies is not None
    assert group.topology.subtopologies[0].state_changelog_topics[0].partitions == 4
    (member,) = group.members
    assert member.assignment == member.target_assignment
    assert [(one.subtopology_id, one.partitions) for one in member.assignment.active_tasks] == [
        ("0", [0, 1, 2, 3])
    ]
    assert member.user_endpoint is not None
    assert member.user_endpoint.port == 1
    assert [(one.key, one.value) for one in member.client_tags] == [("zone", "z")]
