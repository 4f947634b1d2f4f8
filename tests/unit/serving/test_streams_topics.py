from __future__ import annotations

from tests.unit.coordinators.group.streams.bench import info, subtopology, topology
from tests.unit.handlers.support import Node
from tests.unit.handlers.test_k88_streams_group_heartbeat import heartbeat, ready, topics_made


def test_it_is_told_why_a_topic_was_refused() -> None:
    with Node() as node:
        ready(node)
        changelog = info("g-c-changelog")
        changelog.replication_factor = 9
        wanted = topology(subtopology(state_changelog_topics=[changelog]))
        first = node.ask(heartbeat(topology=wanted))
        node.run(topics_made(node))
        (status,) = node.ask(heartbeat(member_epoch=first.member_epoch)).status
        assert "Creation failed: g-c-changelog (" in status.status_detail
        assert not node.services.streams_topics._under_way
