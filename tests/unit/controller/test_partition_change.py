"""Leaders, in-sync and eligible replicas: the rules of one change, by table and by property."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaa.controller.directories import LOST, MIGRATING
from kaa.controller.partition_change import (
    LEADER_UNCHANGED,
    RECOVERED,
    RECOVERING,
    Election,
    PartitionChange,
    assigned_directories,
)
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.controller.cluster import Cluster, directory, uuid

WITHOUT_ELR = {"eligible.leader.replicas.version": 0}


def made(brokers: int, replicas: list[int], *, min_isr: int = 1, elr: bool = True) -> Cluster:
    cluster = Cluster(brokers, levels=None if elr else WITHOUT_ELR)
    cluster.create("t", replicas=[replicas], configs={"min.insync.replicas": str(min_isr)})
    return cluster


def change(cluster: Cluster) -> PartitionChange:
    return PartitionChange(cluster.state, cluster.image.topics["t"], 0)


def apply(cluster: Cluster, wanted: PartitionChange) -> PartitionChangeRecord:
    record = wanted.record()
    assert record is not None
    cluster.image.replay(record)
    return record


def test_no_difference_is_no_record() -> None:
    assert change(made(3, [0, 1, 2])).record() is None


def test_a_leader_in_the_isr_stays() -> None:
    cluster = made(3, [0, 1, 2])
    wanted = change(cluster)
    wanted.isr = [0, 2]
    record = apply(cluster, wanted)
    assert (record.isr, record.leader) == ([0, 2], LEADER_UNCHANGED)
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 1)


def test_old_metadata_raised_the_leader_epoch_when_an_isr_shrank() -> None:
    cluster = Cluster(3, metadata_version=11)
    cluster.create("t", replicas=[[0, 1, 2]])
    wanted = change(cluster)
    wanted.isr = [0, 2]
    assert apply(cluster, wanted).leader == 0


def test_the_first_live_replica_of_the_isr_is_elected() -> None:
    cluster = made(3, [0, 1, 2])
    cluster.fence(0, 1)
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (2, (2,))
    assert partition.leader_epoch == 2


@pytest.mark.parametrize("elr", [True, False])
def test_without_eligible_leaders_the_last_in_sync_replica_stays_in_the_isr(elr: bool) -> None:
    cluster = made(2, [0, 1], min_isr=2, elr=elr)
    cluster.fence(0, 1)
    partition = cluster.image.topics["t"].partitions[0]
    assert partition.leader == -1
    if elr:
        assert (partition.isr, partition.eligible_leader_replicas) == ((), (0, 1))
        assert partition.last_known_elr == (1,)
    else:
        assert (partition.isr, partition.eligible_leader_replicas) == ((1,), ())
    cluster.heartbeat(0)
    partition = cluster.image.topics["t"].partitions[0]
    assert partition.leader == (0 if elr else -1)
    cluster.heartbeat(1)
    partition = cluster.image.topics["t"].partitions[0]
    assert partition.leader == (0 if elr else 1)
    assert partition.leader_recovery_state == RECOVERED


def test_an_eligible_leader_takes_over_alone() -> None:
    cluster = made(3, [0, 1, 2], min_isr=3)
    cluster.fence(1)
    assert cluster.image.topics["t"].partitions[0].eligible_leader_replicas == (1,)
    cluster.fence(0, 2)
    cluster.heartbeat(1)
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (1, (1,))
    assert partition.eligible_leader_replicas == (0, 2)
    assert (partition.last_known_elr, partition.leader_recovery_state) == ((), RECOVERED)


def test_an_isr_of_sufficient_size_needs_no_eligible_leaders() -> None:
    cluster = made(3, [0, 1, 2], min_isr=2)
    partitions = cluster.image.topics["t"].partitions
    eligible = []
    for broker_id in (1, 2):
        cluster.fence(broker_id)
        eligible.append(partitions[0].eligible_leader_replicas)
    wanted = change(cluster)
    wanted.isr = [0, 1]
    apply(cluster, wanted)
    assert [*eligible, partitions[0].eligible_leader_replicas] == [(), (2,), ()]


def test_the_last_known_leader_comes_back_recovering() -> None:
    """After an unclean end nobody is known to have everything, and the last leader may lead."""
    cluster = made(1, [0])
    cluster.now_ms += 9_001
    cluster.register(0, incarnation_id=uuid(99))
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.last_known_elr) == (-1, (), (0,))
    cluster.heartbeat(0)
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.last_known_elr) == (0, (0,), ())
    assert partition.leader_recovery_state == RECOVERING


def test_unclean_election_takes_any_live_replica() -> None:
    cluster = made(3, [0, 1, 2], elr=False)
    cluster.fence(1, 2)
    cluster.fence(0)
    assert cluster.image.topics["t"].partitions[0].leader == -1
    cluster.heartbeat(1)
    assert cluster.image.topics["t"].partitions[0].leader == -1
    wanted = change(cluster)
    wanted.election = Election.UNCLEAN
    record = apply(cluster, wanted)
    assert (record.leader, record.isr) == (1, [1])
    assert record.leader_recovery_state == RECOVERING


def test_the_preferred_leader_gets_its_leadership_back() -> None:
    cluster = made(2, [0, 1])
    cluster.fence(0)
    cluster.heartbeat(0)
    wanted = change(cluster)
    wanted.isr = [0, 1]
    apply(cluster, wanted)
    assert cluster.image.topics["t"].partitions[0].leader == 1
    wanted = change(cluster)
    wanted.election = Election.PREFERRED
    assert apply(cluster, wanted).leader == 0


def test_a_replica_in_a_failed_directory_does_not_lead() -> None:
    cluster = made(2, [0, 1])
    cluster.heartbeat(1, offline_log_dirs=[directory(1)])
    assert cluster.image.topics["t"].partitions[0].isr == (0,)
    wanted = change(cluster)
    wanted.isr = [1]
    wanted.directories[1] = LOST
    cluster.image.replay(
        PartitionChangeRecord(
            partition_id=0,
            topic_id=cluster.image.topics["t"].id,
            directories=[directory(0), LOST],
        )
    )
    wanted = change(cluster)
    wanted.isr = [1]
    assert apply(cluster, wanted).leader == -1


def test_a_removed_replica_raises_the_leader_epoch() -> None:
    cluster = made(3, [0, 1, 2])
    wanted = change(cluster)
    wanted.replicas, wanted.isr = [0, 1], [0, 1]
    record = apply(cluster, wanted)
    assert (record.leader, record.replicas) == (0, [0, 1])
    assert record.directories == [directory(0), directory(1)]


def test_partitions_of_old_records_have_no_directories() -> None:
    cluster = Cluster(2, metadata_version=14)
    cluster.create("t", replicas=[[0, 1]])
    partition = cluster.image.topics["t"].partitions[0]._replace(directories=())
    assert assigned_directories(partition) == {0: MIGRATING, 1: MIGRATING}


steps = st.lists(
    st.tuples(st.sampled_from(["fence", "unfence", "crash", "join"]), st.integers(0, 2)),
    max_size=12,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps=steps, min_isr=st.integers(1, 3), elr=st.booleans())
def test_whatever_brokers_do_leaders_are_in_sync_and_alive(
    steps: list[tuple[str, int]], min_isr: int, elr: bool
) -> None:
    cluster = made(3, [0, 1, 2], min_isr=min_isr, elr=elr)
    incarnation = 100
    for what, broker_id in steps:
        before = cluster.image.topics["t"].partitions[0]
        if what == "fence":
            cluster.fence(broker_id)
        elif what == "unfence":
            cluster.heartbeat(broker_id)
        elif what == "crash":
            incarnation += 1
            cluster.now_ms += 9_001
            cluster.register(broker_id, incarnation_id=uuid(incarnation))
        elif before.leader >= 0 and cluster.state.is_active(broker_id):
            wanted = change(cluster)
            wanted.isr = [each for each in (0, 1, 2) if each in before.isr or each == broker_id]
            record = wanted.record()
            if record is not None:
                cluster.image.replay(record)
        after = cluster.image.topics["t"].partitions[0]
        if after.leader >= 0:
            assert after.leader in after.isr
            assert cluster.state.is_active(after.leader)
        assert set(after.isr) <= {0, 1, 2}
        assert not set(after.isr) & set(after.eligible_leader_replicas)
        assert after.partition_epoch >= before.partition_epoch
        assert (after.leader == before.leader) or after.leader_epoch > before.leader_epoch
        if not elr:
            assert after.isr
            assert after.eligible_leader_replicas == ()


@pytest.mark.parametrize("isr", [[0], []])
def test_a_replica_that_is_removed_is_not_kept_as_eligible(isr: list[int]) -> None:
    """It would come back with an empty log, and could be elected."""
    cluster = made(3, [0, 1, 2], min_isr=3)
    cluster.fence(1)
    wanted = change(cluster)
    wanted.replicas, wanted.isr = [0, 1], isr
    apply(cluster, wanted)
    partition = cluster.image.topics["t"].partitions[0]
    assert partition.replicas == (0, 1)
    assert 2 not in partition.eligible_leader_replicas
    assert set(partition.eligible_leader_replicas) == {0, 1} - {*partition.isr}
