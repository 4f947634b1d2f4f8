"""The metadata quorum as another replica, or a tool, would talk to it.

Nothing here may be in earnest: a vote of a newer epoch would depose the leader, and Kafka ends
itself if it hears of a second leader in one epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.wire.messages import (
    k52_vote,
    k53_begin_quorum_epoch,
    k54_end_quorum_epoch,
    k55_describe_quorum,
    k59_fetch_snapshot,
    k80_add_raft_voter,
    k81_remove_raft_voter,
    k82_update_raft_voter,
)
from kaa.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from kaa.wire.messages.k55_describe_quorum import DescribeQuorumRequest
from kaa.wire.primitives import Uuid
from kaa.wire.registry import ApiKey
from tests.differential.case import Story, World, case
from tests.differential.peers import CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Sequence

METADATA = "__cluster_metadata"
METADATA_ID = Uuid((1).to_bytes(16, "big"))
# What is asked for that is not the metadata partition.
ELSEWHERE: Sequence[Sequence[tuple[str, Sequence[int]]]] = (
    [],
    [("other", [0])],
    [(METADATA, [1])],
    [(METADATA, [0, 1])],
    [(METADATA, [0]), ("other", [0])],
    [(METADATA, [])],
)


def _epoch(world: World) -> int:
    """The epoch that the node leads; not compared."""
    request = _describe((METADATA, [0]))
    response = world.peer.ask(request, 2, CONTROLLER)
    epoch: int = response.topics[0].partitions[0].leader_epoch
    return epoch


# --- DescribeQuorum


def _describe(*wanted: tuple[str, Sequence[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            k55_describe_quorum.RequestTopicData(
                topic_name=name,
                partitions=[
                    k55_describe_quorum.RequestPartitionData(partition_index=number)
                    for number in numbers
                ],
            )
            for name, numbers in wanted
        ]
    )


@case(ApiKey.DESCRIBE_QUORUM, "the metadata partition")
def _(world: World) -> Story:
    yield _describe((METADATA, [0]))


@case(ApiKey.DESCRIBE_QUORUM, "anything else")
def _(world: World) -> Story:
    for wanted in ELSEWHERE:
        yield _describe(*wanted)


# --- Vote


def _vote(
    world: World,
    epoch: int,
    *,
    wanted: Sequence[tuple[str, Sequence[int]]] = ((METADATA, [0]),),
    last: tuple[int, int] = (0, 0),
    **fields: object,
) -> k52_vote.VoteRequest:
    """A vote for replica 7, whose log ends at `last`, an offset and an epoch."""
    request = k52_vote.VoteRequest(
        cluster_id=world.peer.cluster_id,
        voter_id=1,
        topics=[
            k52_vote.RequestTopicData(
                topic_name=name,
                partitions=[
                    k52_vote.RequestPartitionData(
                        partition_index=number,
                        replica_id=7,
                        replica_epoch=epoch,
                        last_offset=last[0],
                        last_offset_epoch=last[1],
                    )
                    for number in numbers
                ],
            )
            for name, numbers in wanted
        ],
    )
    for name, value in fields.items():
        part = request if hasattr(request, name) else request.topics[0].partitions[0]
        setattr(part, name, value)
    return request


@case(ApiKey.VOTE, "votes that are not granted")
def _(world: World) -> Story:
    epoch = _epoch(world)
    yield _vote(world, epoch)
    yield _vote(world, epoch - 1)
    yield _vote(world, -1)
    yield _vote(world, epoch, cluster_id=None)
    yield _vote(world, epoch, replica_id=1)
    yield _vote(world, epoch, replica_id=-1)
    yield _vote(world, epoch, last=(-1, 0))
    yield _vote(world, epoch, last=(0, epoch + 2))


@case(ApiKey.VOTE, "other clusters and partitions")
def _(world: World) -> Story:
    epoch = _epoch(world)
    yield _vote(world, epoch, cluster_id="other")
    for wanted in ELSEWHERE:
        yield _vote(world, epoch, wanted=wanted)


@case(ApiKey.VOTE, "other voters", low=1)
def _(world: World) -> Story:
    epoch = _epoch(world)
    yield _vote(world, epoch, voter_id=5)
    yield _vote(world, epoch, voter_id=-1)
    yield _vote(world, epoch, voter_directory_id=Uuid(b"id-of-other-dir-"))


@case(ApiKey.VOTE, "questions before a vote", low=2)
def _(world: World) -> Story:
    epoch = _epoch(world)
    yield _vote(world, epoch, pre_vote=True)
    yield _vote(world, epoch, pre_vote=True, last=(10**9, epoch))
    yield _vote(world, epoch - 1, pre_vote=True)


# --- BeginQuorumEpoch, EndQuorumEpoch


def _begin(
    world: World,
    epoch: int,
    *,
    wanted: Sequence[tuple[str, Sequence[int]]] = ((METADATA, [0]),),
    leader_id: int = 7,
) -> k53_begin_quorum_epoch.BeginQuorumEpochRequest:
    module = k53_begin_quorum_epoch
    return module.BeginQuorumEpochRequest(
        cluster_id=world.peer.cluster_id,
        voter_id=1,
        topics=[
            module.RequestTopicData(
                topic_name=name,
                partitions=[
                    module.RequestPartitionData(
                        partition_index=number, leader_id=leader_id, leader_epoch=epoch
                    )
                    for number in numbers
                ],
            )
            for name, numbers in wanted
        ],
        leader_endpoints=[module.LeaderEndpoint(name="CONTROLLER", host="h", port=1)],
    )


@case(ApiKey.BEGIN_QUORUM_EPOCH, "old epochs, other clusters and partitions")
def _(world: World) -> Story:
    epoch = _epoch(world)
    yield _begin(world, epoch - 1)
    yield _begin(world, -1)
    yield _begin(world, epoch - 1, leader_id=-1)
    other = _begin(world, epoch - 1)
    other.cluster_id = "other"
    yield other
    for wanted in ELSEWHERE:
        yield _begin(world, epoch - 1, wanted=wanted)


def _end(
    world: World,
    epoch: int,
    *,
    wanted: Sequence[tuple[str, Sequence[int]]] = ((METADATA, [0]),),
    leader_id: int = 7,
) -> k54_end_quorum_epoch.EndQuorumEpochRequest:
    module = k54_end_quorum_epoch
    return module.EndQuorumEpochRequest(
        cluster_id=world.peer.cluster_id,
        topics=[
            module.RequestTopicData(
                topic_name=name,
                partitions=[
                    module.RequestPartitionData(
                        partition_index=number,
                        leader_id=leader_id,
                        leader_epoch=epoch,
                        preferred_successors=[1],
                        preferred_candidates=[module.ReplicaInfo(candidate_id=1)],
                    )
                    for number in numbers
                ],
            )
            for name, numbers in wanted
        ],
    )


@case(ApiKey.END_QUORUM_EPOCH, "old epochs, other clusters and partitions")
def _(world: World) -> Story:
    epoch = _epoch(world)
    yield _end(world, epoch - 1)
    yield _end(world, -1)
    other = _end(world, epoch - 1)
    other.cluster_id = "other"
    yield other
    for wanted in ELSEWHERE:
        yield _end(world, epoch - 1, wanted=wanted)


# --- Fetch at the controller


def _fetch(
    world: World, epoch: int, offset: int, last_epoch: int, *, replica_id: int = 7
) -> FetchRequest:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch if world.version >= 12 else -1,
        partition_max_bytes=10_000,
    )
    is_new = world.version >= 15
    return FetchRequest(
        cluster_id=world.peer.cluster_id,
        replica_id=-1 if is_new else replica_id,
        replica_state=ReplicaState(replica_id=replica_id) if is_new else None,
        topics=[FetchTopic(topic=METADATA, topic_id=METADATA_ID, partitions=[partition])],
    )


@case(ApiKey.FETCH, "the metadata log, from where one cannot read", on=(CONTROLLER,))
def _(world: World) -> Story:
    epoch = _epoch(world)
    yield _fetch(world, epoch + 1, 0, 0)
    yield _fetch(world, epoch - 1, 0, 0)
    yield _fetch(world, epoch, -1, 0)
    yield _fetch(world, epoch, 0, -1)
    yield _fetch(world, -1, 0, 0)
    yield _fetch(world, epoch, 0, epoch + 1)
    negative = _fetch(world, epoch, 0, 0)
    negative.max_wait_ms = -1
    yield negative
    other = _fetch(world, epoch, 0, 0)
    other.cluster_id = "other"
    if world.version >= 12:
        yield other


@case(ApiKey.FETCH, "other partitions at the controller", on=(CONTROLLER,))
def _(world: World) -> Story:
    epoch = _epoch(world)
    yield FetchRequest(topics=[])
    several = _fetch(world, epoch, 0, 0)
    several.topics *= 2
    yield several
    wrong = _fetch(world, epoch, 0, 0)
    wrong.topics[0].topic, wrong.topics[0].topic_id = "t", Uuid(b"no-such-topic-id")
    yield wrong


# --- FetchSnapshot


def _fetch_snapshot(
    world: World,
    epoch: int,
    *,
    snapshot: tuple[int, int] = (10**9, 1),
    wanted: Sequence[tuple[str, Sequence[int]]] = ((METADATA, [0]),),
) -> k59_fetch_snapshot.FetchSnapshotRequest:
    module = k59_fetch_snapshot
    return module.FetchSnapshotRequest(
        cluster_id=world.peer.cluster_id,
        replica_id=7,
        max_bytes=100,
        topics=[
            module.RequestTopicSnapshot(
                name=name,
                partitions=[
                    module.RequestPartitionSnapshot(
                        partition=number,
                        current_leader_epoch=epoch,
                        snapshot_id=module.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1]),
                    )
                    for number in numbers
                ],
            )
            for name, numbers in wanted
        ],
    )


@case(ApiKey.FETCH_SNAPSHOT, "snapshots that do not exist, and other epochs")
def _(world: World) -> Story:
    epoch = _epoch(world)
    yield _fetch_snapshot(world, epoch)
    yield _fetch_snapshot(world, epoch, snapshot=(0, 0))
    yield _fetch_snapshot(world, epoch + 1)
    yield _fetch_snapshot(world, epoch - 1)


@case(ApiKey.FETCH_SNAPSHOT, "other clusters and partitions")
def _(world: World) -> Story:
    epoch = _epoch(world)
    other = _fetch_snapshot(world, epoch)
    other.cluster_id = "other"
    yield other
    for wanted in ELSEWHERE:
        # Kafka ends itself if nothing is asked for.
        if wanted and wanted[0][1]:
            yield _fetch_snapshot(world, epoch, wanted=wanted)


# --- changes of the voters, which are static here (`test_mixed_quorum` compares them where they are
# not)


@case(ApiKey.ADD_RAFT_VOTER, "while voters are static")
def _(world: World) -> Story:
    module = k80_add_raft_voter
    listeners = [module.Listener(name="CONTROLLER", host="h", port=1)]
    for cluster_id, voter_id, found in (
        (world.peer.cluster_id, 7, listeners),
        (None, 7, listeners),
        (world.peer.cluster_id, 1, listeners),
        ("other", 7, listeners),
        (world.peer.cluster_id, -1, []),
    ):
        yield module.AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=1000,
            voter_id=voter_id,
            voter_directory_id=Uuid(b"id-of-some-dir--"),
            listeners=found,
        )


@case(ApiKey.REMOVE_RAFT_VOTER, "while voters are static")
def _(world: World) -> Story:
    for cluster_id, voter_id in ((world.peer.cluster_id, 1), (None, 7), ("other", 7)):
        yield k81_remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=cluster_id,
            voter_id=voter_id,
            voter_directory_id=Uuid(b"id-of-some-dir--"),
        )


@case(ApiKey.UPDATE_RAFT_VOTER, "what is refused")
def _(world: World) -> Story:
    module = k82_update_raft_voter
    epoch = _epoch(world)
    for cluster_id, told_epoch, voter_id in (
        ("other", epoch, 7),
        (world.peer.cluster_id, epoch - 1, 7),
        (world.peer.cluster_id, epoch + 1, 7),
        (world.peer.cluster_id, epoch, 7),
    ):
        yield module.UpdateRaftVoterRequest(
            cluster_id=cluster_id,
            current_leader_epoch=told_epoch,
            voter_id=voter_id,
            voter_directory_id=Uuid(b"id-of-some-dir--"),
            listeners=[module.Listener(name="CONTROLLER", host="h", port=1)],
            kraft_version_feature=module.KRaftVersionFeature(
                min_supported_version=0, max_supported_version=1
            ),
        )
