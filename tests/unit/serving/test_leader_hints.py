from __future__ import annotations

from kaa.serving.leader_hints import HintedLeaders, LeaderHint
from kaa.wire.messages.k01_fetch import NodeEndpoint
from kaa.wire.messages.metadata_cluster import (
    BrokerEndpoint,
    FenceBrokerRecord,
    RegisterBrokerRecord,
)
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.handlers.support import Node


def test_leaders_and_their_addresses() -> None:
    with Node() as node:
        node.create_topic("t", 2)
        topic_id = node.services.image.topics["t"].id
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="two", port=9, security_protocol=0)
        node.replay(
            RegisterBrokerRecord(broker_id=2, broker_epoch=20, fenced=False, end_points=[endpoint]),
            PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=2),
            # This broker has no replica of it any more.
            PartitionChangeRecord(topic_id=topic_id, partition_id=1, leader=2, replicas=[2]),
        )
        leaders = HintedLeaders(node.services, "PLAINTEXT")
        assert leaders.hint("t", 0) == leaders.hint("t", 1) == LeaderHint(2, 1)
        assert leaders.hint("t", 2) == leaders.hint("none", 0) == LeaderHint(-1, -1)
        assert leaders.endpoints(NodeEndpoint) == [
            NodeEndpoint(node_id=2, host="two", port=9, rack="")
        ]
        other = HintedLeaders(node.services, "OTHER")
        assert other.hint("t", 0) == LeaderHint(2, 1)
        assert other.endpoints(NodeEndpoint) == []
        node.replay(FenceBrokerRecord(id=2, epoch=20))
        fenced = HintedLeaders(node.services, "PLAINTEXT")
        assert fenced.hint("t", 0) == LeaderHint(2, 1)
        assert fenced.endpoints(NodeEndpoint) == []
