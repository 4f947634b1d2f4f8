"""Kaa and Apache Kafka vote in one quorum, and its voters come and go."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kaa.quorum.voters import ReplicaKey
from kaa.wire.errors import Errors
from kaa.wire.messages import k80_add_raft_voter, k81_remove_raft_voter, k82_update_raft_voter
from kaa.wire.primitives import UUID_ZERO
from kaa.wire.schema import Request
from tests.oracle.client import Oracle
from tests.oracle.environment import wait_until
from tests.support.ids import uuid
from tests.support.mixed_cluster import SETTLED_SECONDS_MAX, MixedCluster, Storm
from tests.support.ports import LOOPBACK
from tests.support.raw import RawClient

pytestmark = pytest.mark.oracle

# A resigned leader names successors with equal logs by their ids: Kafka's turn comes early.
KAFKA, KAA = (1,), (2, 3)
MOVES_MAX = 12


def refusals(address: str, epoch: int, voter: ReplicaKey) -> list[Errors]:
    """What a leader answers to changes of voters that it must not make."""
    listener = k80_add_raft_voter.Listener(name="CONTROLLER", host=LOOPBACK, port=1)
    stranger = ReplicaKey(9, uuid(9))
    requests: list[Request[Any]] = [
        k80_add_raft_voter.AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=500,
            voter_id=key.id,
            voter_directory_id=key.directory_id or UUID_ZERO,
            listeners=listeners,
        )
        for cluster_id, key, listeners in (
            ("other", stranger, [listener]),
            (None, voter, [listener]),
            (None, ReplicaKey(voter.id, uuid(9)), [listener]),
            (None, stranger, []),
            (None, ReplicaKey(9), [listener]),
            (None, ReplicaKey(-1, uuid(9)), [listener]),
            # Nobody answers there.
            (None, stranger, [listener]),
        )
    ]
    requests += [
        k81_remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=cluster_id,
            voter_id=key.id,
            voter_directory_id=key.directory_id or UUID_ZERO,
        )
        for cluster_id, key in (
            ("other", voter),
            (None, stranger),
            (None, ReplicaKey(voter.id, uuid(9))),
            (None, ReplicaKey(voter.id)),
        )
    ]
    module = k82_update_raft_voter
    requests += [
        module.UpdateRaftVoterRequest(
            cluster_id=None,
            current_leader_epoch=told,
            voter_id=key.id,
            voter_directory_id=key.directory_id or UUID_ZERO,
            listeners=[module.Listener(name=name, host=LOOPBACK, port=1)],
            kraft_version_feature=module.KRaftVersionFeature(
                min_supported_version=0, max_supported_version=level
            ),
        )
        for told, key, name, level in (
            (epoch - 1, voter, "CONTROLLER", 1),
            (epoch + 1, voter, "CONTROLLER", 1),
            (epoch, stranger, "CONTROLLER", 1),
            (epoch, ReplicaKey(voter.id), "CONTROLLER", 1),
            (epoch, voter, "OTHER", 1),
            (epoch, voter, "CONTROLLER", 0),
        )
    ]
    with RawClient(address) as client:
        return [Errors.of(client.ask(request).error_code) for request in requests]


@pytest.mark.slow
def test_every_voter_leads_and_voters_come_and_go(oracle: Oracle, tmp_path: Path) -> None:
    with MixedCluster(tmp_path, oracle, KAA, KAFKA, is_dynamic=True) as made:
        with Storm(made) as storm:
            led: set[int] = set()
            answers: dict[int, list[Errors]] = {}
            for _ in range(MOVES_MAX):
                leader = made.leader()
                if leader not in led:
                    led.add(leader)
                    storm.wait_for_more(3)
                    # Every kind of leader takes a vote away and gives it back.
                    voter = next(each for each in KAA if each != leader)
                    epoch = made.quorum().leader_epoch
                    key = ReplicaKey(voter, made.nodes[voter].directory_id)
                    address = made.nodes[leader].controller
                    answers[leader] = refusals(address, epoch, key)
                    made.remove(voter, by_controller=leader in KAFKA)
                    assert made.voters() == sorted({1, 2, 3} - {voter})
                    made.add(voter, by_controller=leader not in KAFKA)
                    assert made.voters() == [1, 2, 3]
                if led == {1, 2, 3}:
                    break
                (made.kill if leader in KAA else made.stop)(leader)
                storm.wait_for_more(1)
                made.start(leader)
            assert led == {1, 2, 3}
            # Kaa's leaders refuse with the errors of Kafka's.
            assert answers[2] == answers[3] == answers[1]
        made.check_equal(storm.promised)


@pytest.mark.slow
def test_static_voters_become_dynamic(oracle: Oracle, tmp_path: Path) -> None:
    with MixedCluster(tmp_path, oracle, KAA, KAFKA, is_dynamic=False) as made:
        address = ("--bootstrap-server", made.bootstrap_servers)
        # Each voter tells a new leader what it supports, after a while.
        upgrade = (*address, "upgrade", "--feature", "kraft.version=1")
        assert wait_until(
            lambda: oracle.run_tool("FeatureCommand", *upgrade).code == 0, SETTLED_SECONDS_MAX
        )
        printed = made.tool("FeatureCommand", *address, "describe")
        assert re.search(r"kraft.version.*FinalizedVersionLevel: 1", printed)
        directories = {voter.node_id: voter.directory_id for voter in made.quorum().voters}
        assert directories == {each.id: each.directory_id for each in made.nodes.values()}
        leader = made.leader()
        voter = next(each for each in (1, 2, 3) if each != leader)
        made.remove(voter, by_controller=True)
        made.remove(leader, by_controller=False)
        assert len(made.voters()) == 1
        made.add(voter, by_controller=False)
        made.add(leader, by_controller=True)
        assert made.voters() == [1, 2, 3]
        with Storm(made) as storm:
            storm.wait_for_more(3)
        made.check_equal(storm.promised)
