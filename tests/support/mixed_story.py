"""What a quorum of Kaa and Apache Kafka goes through, whichever mix of them it is.

Under a storm of new topics every voter leads once. Each leader has to refuse what it must not do,
takes a vote away and gives it back, and is then killed. A voter is replaced last: its disk is gone,
it is formatted again under a new directory id, and votes again.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from kaa.quorum.voters import ReplicaKey
from kaa.wire.errors import Errors
from kaa.wire.messages import k80_add_raft_voter, k81_remove_raft_voter, k82_update_raft_voter
from kaa.wire.primitives import UUID_ZERO
from tests.support.ids import uuid
from tests.support.mixed_cluster import Storm
from tests.support.ports import LOOPBACK
from tests.support.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Collection

    from kaa.wire.schema import Request
    from tests.support.mixed_cluster import MixedCluster

MOVES_MAX = 12


def every_voter_leads(made: MixedCluster, storm: Storm, gentle: Collection[int] = ()) -> None:
    """The story until each voter has led; leaders that are `gentle` are stopped, not killed."""
    ids = sorted(made.nodes)
    answers: dict[int, list[Errors]] = {}
    for move in range(MOVES_MAX):
        leader = made.leader()
        if leader not in answers:
            storm.wait_for_more(3)
            # Every kind of leader takes a vote away and gives it back.
            voter = [each for each in ids if each != leader][-1]
            answers[leader] = refusals(made, leader, voter)
            made.remove(voter, by_controller=move % 2 == 0)
            assert made.voters() == sorted(set(ids) - {voter})
            made.add(voter, by_controller=move % 2 == 1)
            assert made.voters() == ids
        if len(answers) == len(ids):
            break
        (made.stop if leader in gentle else made.kill)(leader)
        storm.wait_for_more(1)
        made.start(leader)
    assert set(answers) == set(ids), f"only {sorted(answers)} led"
    # All leaders refuse with the same errors, Kafka's.
    assert len({tuple(each) for each in answers.values()}) == 1, answers


def replace(made: MixedCluster, storm: Storm, node_id: int) -> None:
    """A voter loses its disk, and another takes its place under the same id."""
    made.kill(node_id)
    storm.wait_for_more(1)
    made.remove(node_id, by_controller=True)
    shutil.rmtree(made.nodes[node_id].folder / "data")
    made.format(node_id, joins=True)
    made.start(node_id)
    made.add(node_id, by_controller=False)
    assert made.voters() == sorted(made.nodes)
    storm.wait_for_more(1)


def refusals(made: MixedCluster, leader: int, voter_id: int) -> list[Errors]:
    """What a leader answers to changes of voters that it must not make."""
    epoch = made.quorum().leader_epoch
    voter = ReplicaKey(voter_id, made.nodes[voter_id].directory_id)
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
    with RawClient(made.nodes[leader].controller) as client:
        return [Errors.of(client.ask(request).error_code) for request in requests]
