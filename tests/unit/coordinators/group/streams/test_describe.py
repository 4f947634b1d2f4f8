from __future__ import annotations

from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k88_streams_group_heartbeat import Endpoint, KeyValue
from tests.unit.coordinators.group.streams.bench import StreamsBench, info, subtopology, topology


def test_a_group_and_what_is_none() -> None:
    bench = StreamsBench()
    bench.beat("x", group="other", topics=["t"])
    stateful = topology(subtopology(state_changelog_topics=[info("c")]))
    bench.ask(
        topology=stateful,
        user_endpoint=Endpoint(host="h", port=1),
        client_tags=[KeyValue(key="zone", value="z")],
    )
    group, *others = (
        finish(bench.machine.describe_streams_group(one)) for one in ("g", "other", "absent")
    )
    assert [one.error_code for one in others] == [Errors.GROUP_ID_NOT_FOUND] * 2
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("NotReady", 2, 2)
    assert group.topology is not None
    assert group.topology.subtopologies is not None
    assert group.topology.subtopologies[0].state_changelog_topics[0].partitions == 0
    bench.create("c", 4)
    bench.ask("m", 2, {})
    group = finish(bench.machine.describe_streams_group("g"))
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
    assert [
        (one.group_type, one.protocol_type, one.group_state)
        for one in finish(bench.machine.list_groups([], ["streams"]))
    ] == [("streams", "streams", "Stable")]
