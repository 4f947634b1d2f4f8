from __future__ import annotations

import pytest

from kaa.controller.elections import balance_leaders, elect_unclean_leaders
from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors
from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.unit.controller.cluster import Cluster

PREFERRED, UNCLEAN = 0, 1
WITHOUT_ELR = {"eligible.leader.replicas.version": 0}


def elect(cluster: Cluster, kind: int, *wanted: tuple[str, list[int]]) -> list[Errors]:
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[
            TopicPartitions(topic=name, partitions=numbers) for name, numbers in wanted
        ],
    )
    response = cluster.send(request)
    return [
        Errors.of(each.error_code)
        for topic in response.replica_election_results
        for each in topic.partition_result
    ]


def moved_away() -> Cluster:
    """Partition t-0 is led by broker 1, though broker 0 comes first and is in sync again."""
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1], [1, 0]])
    cluster.fence(0)
    cluster.heartbeat(0)
    for number in (0, 1):
        partition = cluster.image.topics["t"].partitions[number]
        assert partition.leader == 1
        cluster.image.topics["t"].partitions[number] = partition._replace(isr=(0, 1))
    return cluster


def test_preferred_election() -> None:
    cluster = moved_away()
    assert elect(cluster, PREFERRED, ("t", [0, 1])) == [Errors.NONE, Errors.ELECTION_NOT_NEEDED]
    assert cluster.image.topics["t"].partitions[0].leader == 0


def test_election_of_everything_leaves_out_what_needs_none() -> None:
    cluster = moved_away()
    response = cluster.send(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None))
    (topic,) = response.replica_election_results
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [(0, 0)]


def test_the_preferred_leader_may_not_be_available() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]])
    cluster.fence(0)
    assert elect(cluster, PREFERRED, ("t", [0])) == [Errors.PREFERRED_LEADER_NOT_AVAILABLE]


def test_unclean_election_on_demand_needs_no_setting() -> None:
    cluster = Cluster(2, levels=WITHOUT_ELR)
    cluster.create("t", replicas=[[0, 1]])
    assert elect(cluster, UNCLEAN, ("t", [0])) == [Errors.ELECTION_NOT_NEEDED]
    cluster.fence(1, 0)
    assert elect(cluster, UNCLEAN, ("t", [0])) == [Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    cluster.heartbeat(1)
    assert elect(cluster, UNCLEAN, ("t", [0])) == [Errors.NONE]
    assert cluster.image.topics["t"].partitions[0].leader == 1


def test_refusals() -> None:
    cluster = moved_away()
    assert (
        elect(cluster, PREFERRED, ("nosuch", [0]), ("t", [9]))
        == [Errors.UNKNOWN_TOPIC_OR_PARTITION] * 2
    )
    with pytest.raises(ControllerError) as refused:
        elect(cluster, 7, ("t", [0]))
    assert refused.value.error is Errors.INVALID_REQUEST


def test_leaders_are_balanced_by_time() -> None:
    cluster = moved_away()
    assert cluster.run(balance_leaders(cluster.state)) is False
    assert len(cluster.written) == 1
    assert cluster.image.topics["t"].partitions[0].leader == 0
    cluster.run(balance_leaders(cluster.state))
    assert cluster.written == []


@pytest.mark.parametrize("is_allowed", [True, False])
def test_unclean_leaders_are_elected_by_time_where_the_topic_allows_it(is_allowed: bool) -> None:
    cluster = Cluster(2, levels=WITHOUT_ELR)
    cluster.create("t", replicas=[[0, 1]])
    cluster.fence(1, 0)
    cluster.heartbeat(1)
    cluster.image.configs[2, "t"] = {"unclean.leader.election.enable": str(is_allowed).lower()}
    cluster.run(elect_unclean_leaders(cluster.state))
    assert cluster.image.topics["t"].partitions[0].leader == (1 if is_allowed else -1)


def test_an_election_round_is_bounded() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]] * 1_500)
    cluster.fence(0)
    cluster.heartbeat(0)
    partitions = cluster.image.topics["t"].partitions
    for number, partition in partitions.items():
        partitions[number] = partition._replace(isr=(0, 1))
    assert cluster.run(balance_leaders(cluster.state)) is True
    assert len(cluster.written) == 1_000
    assert cluster.run(balance_leaders(cluster.state)) is False
    assert {each.leader for each in partitions.values()} == {0}
