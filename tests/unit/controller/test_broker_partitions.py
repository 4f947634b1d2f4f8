from __future__ import annotations

from random import Random

from kaa.controller.broker_partitions import BrokerPartitions
from kaa.model.nodes import NO_LEADER
from kaa.model.pieces import finish
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.controller.cluster import Cluster


def found(cluster: Cluster, broker_id: int) -> set[tuple[str, int]]:
    partitions = cluster.state.partitions.of(broker_id, cluster.image)
    return {(topic.name, number) for topic, number in partitions}


def expected(cluster: Cluster, broker_id: int) -> set[tuple[str, int]]:
    """The same by looking at every partition."""
    return {
        (topic.name, number)
        for topic in cluster.image.topics.values()
        for number, partition in topic.partitions.items()
        if broker_id in partition.replicas or (broker_id == NO_LEADER == partition.leader)
    }


def check(cluster: Cluster) -> None:
    for broker_id in (*range(4), NO_LEADER):
        assert found(cluster, broker_id) == expected(cluster, broker_id)
        leads = any(
            partition.leader == broker_id
            for topic in cluster.image.topics.values()
            for partition in topic.partitions.values()
        )
        assert cluster.state.partitions.leads(broker_id) is leads
    imbalanced = cluster.state.partitions.imbalanced(cluster.image)
    assert {(topic.name, number) for topic, number in imbalanced} == {
        (topic.name, number)
        for topic in cluster.image.topics.values()
        for number, partition in topic.partitions.items()
        if partition.leader != partition.replicas[0]
    }
    rebuilt = BrokerPartitions()
    finish(rebuilt.build(cluster.image))
    assert rebuilt._partitions == cluster.state.partitions._partitions
    assert rebuilt._imbalanced == cluster.state.partitions._imbalanced


def test_the_index_follows_every_change() -> None:
    random = Random(5)
    cluster = Cluster(4)
    for number in range(60):
        match random.randrange(4):
            case 0:
                cluster.create(f"t{number}", partitions=3, factor=random.randrange(1, 4))
            case 1:
                cluster.fence(random.randrange(4))
            case 2:
                cluster.heartbeat(random.randrange(4))
            case _:
                names = sorted(cluster.image.topics)
                if names:
                    topic = DeleteTopicState(name=random.choice(names))
                    cluster.send(DeleteTopicsRequest(topics=[topic]))
        check(cluster)
