"""Hostile input on the listener of a controller: it is refused, and the quorum does not move."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages import (
    k52_vote,
    k53_begin_quorum_epoch,
    k54_end_quorum_epoch,
    k56_alter_partition,
    k59_fetch_snapshot,
    k62_broker_registration,
    k63_broker_heartbeat,
    k67_allocate_producer_ids,
    k73_assign_replicas_to_dirs,
    k80_add_raft_voter,
    k81_remove_raft_voter,
    k82_update_raft_voter,
)
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.primitives import UUID_ZERO, Uuid
from kaa.wire.registry import api
from kaa.wire.schema import Request
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.ids import uuid
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient, request_frame, sized

METADATA = "__cluster_metadata"
METADATA_ID = Uuid((1).to_bytes(16, "big"))
MEBIBYTE = 1 << 20
API_VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
OTHER = "another-cluster-of-Kaa"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("hostile-controller")) as running:
        # A clean stop leaves a snapshot, for those who ask for one.
        running.stop()
        running.start()
        # From its first connection to another node on, the event loop keeps one descriptor in
        # reserve; nobody answers there.
        with RawClient(running.controller) as client:
            client.ask(add(cluster_id(running), 9, uuid(96)))
        yield running


@pytest.fixture
def address(broker: BrokerProcess) -> Iterator[str]:
    """The controller's address; the quorum is the same before and after."""
    before, descriptors = state(broker), broker.descriptor_count
    held = broker.descriptors
    yield broker.controller
    assert state(broker) == before
    assert wait_until(lambda: broker.descriptor_count <= descriptors, PATIENCE_SECONDS), (
        f"held {held}, holds {broker.descriptors}"
    )
    broker.check_health()


def quorum(broker: BrokerProcess) -> Any:
    topic = RequestTopicData(topic_name=METADATA, partitions=[RequestPartitionData()])
    with RawClient(broker.controller) as client:
        answer = client.ask(DescribeQuorumRequest(topics=[topic]))
    return answer.topics[0].partitions[0]


def state(broker: BrokerProcess) -> tuple[Any, ...]:
    """Who leads and votes, and what is on disk of it."""
    found = quorum(broker)
    voters = [(voter.replica_id, voter.replica_directory_id) for voter in found.current_voters]
    stored = (broker.data_dir / "__cluster_metadata-0" / "quorum-state").read_bytes()
    return found.leader_id, found.leader_epoch, voters, stored


def closes(address: str, data: bytes) -> bool:
    with RawClient(address) as client:
        client.send(data)
        return client.is_closed_by_peer()


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 2**31 - 1, 100 * MEBIBYTE + 1])
def test_sizes_of_frames(address: str, size: int) -> None:
    assert closes(address, struct.pack(">i", size))


def test_garbage(address: str) -> None:
    random = Random(6)
    for _ in range(30):
        assert closes(address, sized(random.randbytes(random.randrange(1, 2_000))))


def test_cut_short_anywhere(address: str) -> None:
    """Requests between controllers that end in the middle of any field."""
    for request in (vote(0), begin(0), end(0), fetch(0, 0)):
        whole = request_frame(request, versions(request))[4:]
        for length in range(12, len(whole), 7):
            assert closes(address, sized(whole[:length]))


def test_frames_that_never_come(address: str, broker: BrokerProcess) -> None:
    before = broker.resident_bytes
    clients = [RawClient(address) for _ in range(100)]
    try:
        for client in clients:
            client.send(struct.pack(">i", 100 * MEBIBYTE) + b"\x00\x00")
        with RawClient(address) as other:
            assert other.ask(API_VERSIONS, 4).error_code == Errors.NONE
        assert broker.resident_bytes - before < 8 * MEBIBYTE
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize("key", [0, 3, 11, 999])
def test_what_only_brokers_serve(address: str, key: int) -> None:
    assert closes(address, sized(struct.pack(">hhih", key, 9, 7, -1)))


def header(key: int, version: int, tags: bytes = b"\x00") -> bytes:
    """The header of a request, without a client id."""
    return struct.pack(">hhih", key, version, 7, -1) + tags


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(struct.pack(">hhi", 52, 2, 7), id="header cut short"),
        pytest.param(struct.pack(">hhih", 52, 2, 7, -2), id="client id of negative length"),
        pytest.param(struct.pack(">hhih", 52, 2, 7, 1) + b"\xff", id="client id not UTF-8"),
        pytest.param(header(52, 2, b"\xff" * 6), id="varint of six bytes"),
        pytest.param(header(52, 2, b"\xff\xff\xff\xff\x0f"), id="tags of 2**32-1"),
        pytest.param(header(53, 1) + b"\x00\xff\xff\xff\xff", id="voter cut short"),
        pytest.param(header(55, 2) + b"\xff\xff\xff\xff\x0f", id="topics of 2**32-2"),
        pytest.param(header(55, 2) + b"\x02\x05ab", id="name past the end"),
        pytest.param(header(55, 2) + b"\x02\x03\xc3\x28\x01\x00\x00", id="name not UTF-8"),
        pytest.param(header(55, 2) + b"\x02\x00\x01\x00\x00", id="null name"),
        pytest.param(header(62, 4) + b"\x00\x00\x00\x01\xff", id="registration cut short"),
    ],
)
def test_malformed_requests(address: str, body: bytes) -> None:
    assert closes(address, sized(body))


def test_arrays_that_expand(address: str, broker: BrokerProcess) -> None:
    """Two million topics without a partition: small on the wire, large as objects."""
    before = broker.resident_bytes
    body = header(55, 2) + b"\x81\x89\x7a" + b"\x02t\x01\x00" * 2_000_000 + b"\x00"
    assert closes(address, sized(body))
    assert broker.resident_bytes - before < 64 * MEBIBYTE


def test_answers_that_nobody_reads(address: str) -> None:
    frame = request_frame(API_VERSIONS, 4)
    with RawClient(address) as client:
        client.socket.settimeout(1.0)
        sent = 0
        try:
            while sent < 500_000:
                client.socket.sendall(frame * 1_000)
                sent += 1_000
        except TimeoutError:
            pass
        else:
            pytest.fail("half a million requests were taken in without an answer being read")
        with RawClient(address) as other:
            assert other.ask(API_VERSIONS, 4).error_code == Errors.NONE


# --- strangers


def versions(request: Request[Any]) -> int:
    return api(request.api_key).served_versions().high


def vote(
    epoch: int,
    *,
    cluster_id: str | None = OTHER,
    voter_id: int = 1,
    directory_id: Uuid = UUID_ZERO,
) -> Request[Any]:
    partition = k52_vote.RequestPartitionData(
        partition_index=0,
        replica_id=7,
        replica_epoch=epoch,
        voter_directory_id=directory_id,
        last_offset=2**40,
    )
    topic = k52_vote.RequestTopicData(topic_name=METADATA, partitions=[partition])
    return k52_vote.VoteRequest(cluster_id=cluster_id, voter_id=voter_id, topics=[topic])


def begin(
    epoch: int,
    *,
    cluster_id: str = OTHER,
    voter_id: int = 1,
    leader_id: int = 7,
    directory_id: Uuid = UUID_ZERO,
) -> Request[Any]:
    module = k53_begin_quorum_epoch
    partition = module.RequestPartitionData(
        partition_index=0,
        voter_directory_id=directory_id,
        leader_id=leader_id,
        leader_epoch=epoch,
    )
    topic = module.RequestTopicData(topic_name=METADATA, partitions=[partition])
    endpoints = [module.LeaderEndpoint(name="CONTROLLER", host="127.0.0.1", port=1)]
    return module.BeginQuorumEpochRequest(
        cluster_id=cluster_id, voter_id=voter_id, topics=[topic], leader_endpoints=endpoints
    )


def end(epoch: int, *, cluster_id: str = OTHER) -> Request[Any]:
    module = k54_end_quorum_epoch
    partition = module.RequestPartitionData(partition_index=0, leader_id=7, leader_epoch=epoch)
    topic = module.RequestTopicData(topic_name=METADATA, partitions=[partition])
    return module.EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])


def fetch(epoch: int, offset: int, *, cluster_id: str = OTHER) -> Request[Any]:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=0,
        partition_max_bytes=2**31 - 1,
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=ReplicaState(replica_id=7),
        topics=[FetchTopic(topic_id=METADATA_ID, partitions=[partition])],
    )


def error(address: str, request: Request[Any]) -> Errors:
    """Of the whole answer, or of its only partition."""
    with RawClient(address) as client:
        answer = client.ask(request)
    if answer.error_code:
        return Errors.of(answer.error_code)
    topics = answer.responses if isinstance(request, FetchRequest) else answer.topics
    return Errors.of(topics[0].partitions[0].error_code)


def test_requests_of_other_clusters(address: str, broker: BrokerProcess) -> None:
    epoch = quorum(broker).leader_epoch
    for told in (epoch, epoch + 1, 2**31 - 1):
        for request in (vote(told), begin(told), end(told), fetch(told, 0), piece(told)):
            assert error(address, request) is Errors.INCONSISTENT_CLUSTER_ID


def test_other_voters_and_epochs(address: str, broker: BrokerProcess) -> None:
    epoch, own = quorum(broker).leader_epoch, cluster_id(broker)
    for request, expected in (
        # After these epochs nobody could be elected.
        (vote(2**31 - 1, cluster_id=None, voter_id=-1), Errors.INVALID_REQUEST),
        (vote(2**31 - 2, cluster_id=own), Errors.INVALID_REQUEST),
        (begin(2**31 - 1, cluster_id=own), Errors.INVALID_REQUEST),
        (end(2**31 - 1, cluster_id=own), Errors.INVALID_REQUEST),
        (vote(epoch, cluster_id=own, voter_id=5), Errors.INVALID_VOTER_KEY),
        # This very id on another disk.
        (vote(epoch, cluster_id=own, directory_id=uuid(97)), Errors.INVALID_VOTER_KEY),
        (vote(epoch - 1, cluster_id=own), Errors.FENCED_LEADER_EPOCH),
        (begin(epoch - 1, cluster_id=own), Errors.FENCED_LEADER_EPOCH),
        # There is a leader in this epoch, and it is another one.
        (begin(epoch, cluster_id=own), Errors.INVALID_REQUEST),
        (begin(epoch, cluster_id=own, voter_id=5), Errors.INVALID_REQUEST),
        (begin(epoch, cluster_id=own, leader_id=1, voter_id=5), Errors.INVALID_VOTER_KEY),
        (
            begin(epoch, cluster_id=own, leader_id=1, directory_id=uuid(97)),
            Errors.INVALID_VOTER_KEY,
        ),
        (end(epoch - 1, cluster_id=own), Errors.FENCED_LEADER_EPOCH),
        (end(epoch, cluster_id=own), Errors.INVALID_REQUEST),
        (piece(epoch - 1, cluster_id=own), Errors.FENCED_LEADER_EPOCH),
        (piece(epoch + 1, cluster_id=own), Errors.UNKNOWN_LEADER_EPOCH),
        (fetch(epoch - 1, 0, cluster_id=own), Errors.FENCED_LEADER_EPOCH),
        (fetch(epoch + 1, 0, cluster_id=own), Errors.UNKNOWN_LEADER_EPOCH),
        (fetch(epoch, -5, cluster_id=own), Errors.INVALID_REQUEST),
    ):
        assert error(address, request) is expected, request


def piece(epoch: int, *, cluster_id: str = OTHER, **changes: int) -> Request[Any]:
    """Of a snapshot; the newest one by default."""
    module = k59_fetch_snapshot
    wanted = module.SnapshotId(
        end_offset=changes.get("end_offset", 1), epoch=changes.get("snapshot_epoch", 1)
    )
    partition = module.RequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=wanted,
        position=changes.get("position", 0),
    )
    topic = module.RequestTopicSnapshot(name=METADATA, partitions=[partition])
    return module.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=7,
        max_bytes=changes.get("max_bytes", 100),
        topics=[topic],
    )


def test_pieces_of_snapshots(address: str, broker: BrokerProcess) -> None:
    epoch, own = quorum(broker).leader_epoch, cluster_id(broker)
    folder = broker.data_dir / "__cluster_metadata-0"
    names = [
        path.name for path in folder.glob("*.checkpoint") if not path.name.startswith("0" * 20)
    ]
    offset, snapshot_epoch = map(int, max(names).removesuffix(".checkpoint").split("-"))
    newest = {"end_offset": offset, "snapshot_epoch": snapshot_epoch}
    for changes, expected in (
        ({}, Errors.NONE),
        ({"max_bytes": 2**31 - 1}, Errors.NONE),
        ({"max_bytes": 0}, Errors.NONE),
        ({"max_bytes": -1}, Errors.INVALID_REQUEST),
        ({"max_bytes": -(2**31)}, Errors.INVALID_REQUEST),
        ({"position": -1}, Errors.POSITION_OUT_OF_RANGE),
        ({"position": 2**62}, Errors.POSITION_OUT_OF_RANGE),
        ({"end_offset": 2**62}, Errors.SNAPSHOT_NOT_FOUND),
        ({"snapshot_epoch": -1}, Errors.SNAPSHOT_NOT_FOUND),
    ):
        request = piece(epoch, cluster_id=own, **{**newest, **changes})
        assert error(address, request) is expected, changes


def test_changes_of_voters_that_nobody_may_make(address: str, broker: BrokerProcess) -> None:
    epoch, own = quorum(broker).leader_epoch, cluster_id(broker)
    (voter,) = quorum(broker).current_voters
    disk = voter.replica_directory_id
    with RawClient(address) as client:
        for request, expected in (
            (add(OTHER, 9, uuid(96)), Errors.INCONSISTENT_CLUSTER_ID),
            (add(own, -1, uuid(96)), Errors.INVALID_REQUEST),
            (add(own, 9, UUID_ZERO), Errors.INVALID_REQUEST),
            (add(own, 9, uuid(96), listener="ELSEWHERE"), Errors.INVALID_REQUEST),
            (add(own, 1, uuid(96)), Errors.DUPLICATE_VOTER),
            # Nobody answers there, let alone follows.
            (add(own, 9, uuid(96)), Errors.REQUEST_TIMED_OUT),
            (remove(OTHER, 1, disk), Errors.INCONSISTENT_CLUSTER_ID),
            (remove(own, 1, uuid(96)), Errors.VOTER_NOT_FOUND),
            (remove(own, 9, uuid(96)), Errors.VOTER_NOT_FOUND),
            (remove(own, 1, UUID_ZERO), Errors.INVALID_REQUEST),
            # The last voter there is.
            (remove(own, 1, disk), Errors.VOTER_NOT_FOUND),
            (update(OTHER, epoch, 1, disk), Errors.INCONSISTENT_CLUSTER_ID),
            (update(own, epoch - 1, 1, disk), Errors.FENCED_LEADER_EPOCH),
            (update(own, epoch + 1, 1, disk), Errors.UNKNOWN_LEADER_EPOCH),
            (update(own, epoch, 1, uuid(96)), Errors.VOTER_NOT_FOUND),
            (update(own, epoch, 9, uuid(96)), Errors.VOTER_NOT_FOUND),
            (update(own, epoch, 1, UUID_ZERO), Errors.INVALID_REQUEST),
            (update(own, epoch, 1, disk, levels=(2, 3)), Errors.INVALID_REQUEST),
        ):
            assert Errors.of(client.ask(request).error_code) is expected, request


def add(
    cluster_id: str, voter_id: int, directory_id: Uuid, listener: str = "CONTROLLER"
) -> Request[Any]:
    module = k80_add_raft_voter
    return module.AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=500,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[module.Listener(name=listener, host="127.0.0.1", port=1)],
    )


def remove(cluster_id: str, voter_id: int, directory_id: Uuid) -> Request[Any]:
    return k81_remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id
    )


def update(
    cluster_id: str,
    epoch: int,
    voter_id: int,
    directory_id: Uuid,
    levels: tuple[int, int] = (0, 1),
) -> Request[Any]:
    module = k82_update_raft_voter
    return module.UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[module.Listener(name="CONTROLLER", host="127.0.0.1", port=1)],
        kraft_version_feature=module.KRaftVersionFeature(
            min_supported_version=levels[0], max_supported_version=levels[1]
        ),
    )


def test_topics_without_end(address: str) -> None:
    topic = CreatableTopic(
        name="wide", num_partitions=1_000_000, replication_factor=1, assignments=[], configs=[]
    )
    with RawClient(address) as client:
        for count in (1_000_000, 2**31 - 1):
            topic.num_partitions = count
            (result,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics
            assert result.error_code != Errors.NONE


def test_many_connections(address: str, broker: BrokerProcess) -> None:
    """Idle ones, and some that come and go with half a request."""
    before = broker.resident_bytes
    frame = request_frame(API_VERSIONS, 4)
    with ExitStack() as opened:
        clients = [opened.enter_context(RawClient(address)) for _ in range(400)]
        for client in clients:
            assert client.ask(API_VERSIONS, 4).error_code == Errors.NONE
        assert (broker.resident_bytes - before) / len(clients) < 10_000
        for number in range(300):
            with RawClient(address) as client:
                client.send(frame[: number % len(frame)])
        assert clients[0].ask(API_VERSIONS, 4).error_code == Errors.NONE


def test_epochs_of_brokers(address: str) -> None:
    """What a broker may say is refused to one that lives no more, or never did."""
    requests: list[Request[Any]] = [
        request(broker_id=broker_id, broker_epoch=epoch)
        for request in (
            k56_alter_partition.AlterPartitionRequest,
            k67_allocate_producer_ids.AllocateProducerIdsRequest,
            k73_assign_replicas_to_dirs.AssignReplicasToDirsRequest,
        )
        for broker_id, epoch in ((1, 0), (1, -1), (1, 2**62), (8, 0), (-1, -1))
    ]
    with RawClient(address) as client:
        for request in requests:
            found = Errors.of(client.ask(request).error_code)
            assert found in (Errors.STALE_BROKER_EPOCH, Errors.BROKER_ID_NOT_REGISTERED), request


def test_brokers_that_are_not_what_they_say(address: str, broker: BrokerProcess) -> None:
    own = cluster_id(broker)
    with RawClient(address) as client:
        for told, broker_id, expected in (
            (OTHER, 8, Errors.INCONSISTENT_CLUSTER_ID),
            # The id of a broker that lives, from another process.
            (own, 1, Errors.DUPLICATE_BROKER_REGISTRATION),
        ):
            request = k62_broker_registration.BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id=told,
                incarnation_id=uuid(99),
                log_dirs=[uuid(98)],
            )
            assert Errors.of(client.ask(request).error_code) is expected
        for broker_id, epoch, expected in (
            (1, 0, Errors.STALE_BROKER_EPOCH),
            (1, 2**62, Errors.STALE_BROKER_EPOCH),
            (8, 0, Errors.STALE_BROKER_EPOCH),
        ):
            beat = k63_broker_heartbeat.BrokerHeartbeatRequest(
                broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=2**62
            )
            assert Errors.of(client.ask(beat).error_code) is expected


def cluster_id(broker: BrokerProcess) -> str:
    text = (broker.data_dir / "meta.properties").read_text()
    (found,) = re.findall(r"^cluster.id=(.+)$", text, re.MULTILINE)
    return str(found)
