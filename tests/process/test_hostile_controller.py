"""Hostile input on the listener of a controller: it is refused, and the quorum does not move."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages import (
    k52_vote,
    k53_begin_quorum_epoch,
    k54_end_quorum_epoch,
    k62_broker_registration,
    k63_broker_heartbeat,
)
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.primitives import Uuid
from kaa.wire.registry import api
from kaa.wire.schema import Request
from tests.support.broker_process import BrokerProcess
from tests.support.ids import uuid
from tests.support.raw import RawClient, request_frame, sized

METADATA = "__cluster_metadata"
METADATA_ID = Uuid((1).to_bytes(16, "big"))
MEBIBYTE = 1 << 20
API_VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
OTHER = "another-cluster-of-Kaa"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("hostile-controller")) as running:
        yield running


@pytest.fixture
def address(broker: BrokerProcess) -> Iterator[str]:
    """The controller's address; the quorum is the same before and after."""
    before = state(broker)
    yield broker.controller
    assert state(broker) == before
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


# --- strangers


def versions(request: Request[Any]) -> int:
    return api(request.api_key).served_versions().high


def vote(epoch: int, *, cluster_id: str = OTHER, voter_id: int = 1) -> Request[Any]:
    partition = k52_vote.RequestPartitionData(
        partition_index=0, replica_id=7, replica_epoch=epoch, last_offset=2**40
    )
    topic = k52_vote.RequestTopicData(topic_name=METADATA, partitions=[partition])
    return k52_vote.VoteRequest(cluster_id=cluster_id, voter_id=voter_id, topics=[topic])


def begin(epoch: int, *, cluster_id: str = OTHER, voter_id: int = 1) -> Request[Any]:
    module = k53_begin_quorum_epoch
    partition = module.RequestPartitionData(partition_index=0, leader_id=7, leader_epoch=epoch)
    topic = module.RequestTopicData(topic_name=METADATA, partitions=[partition])
    endpoints = [module.LeaderEndpoint(name="CONTROLLER", host="127.0.0.1", port=1)]
    return module.BeginQuorumEpochRequest(
        cluster_id=cluster_id, voter_id=voter_id, topics=[topic], leader_endpoints=endpoints
    )


def end(epoch: int) -> Request[Any]:
    module = k54_end_quorum_epoch
    partition = module.RequestPartitionData(partition_index=0, leader_id=7, leader_epoch=epoch)
    topic = module.RequestTopicData(topic_name=METADATA, partitions=[partition])
    return module.EndQuorumEpochRequest(cluster_id=OTHER, topics=[topic])


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
        for request in (vote(told), begin(told), end(told), fetch(told, 0)):
            assert error(address, request) is Errors.INCONSISTENT_CLUSTER_ID


def test_other_voters_and_epochs(address: str, broker: BrokerProcess) -> None:
    epoch, own = quorum(broker).leader_epoch, cluster_id(broker)
    for request, expected in (
        (vote(epoch, cluster_id=own, voter_id=5), Errors.INVALID_VOTER_KEY),
        (begin(epoch - 1, cluster_id=own), Errors.FENCED_LEADER_EPOCH),
        (fetch(epoch - 1, 0, cluster_id=own), Errors.FENCED_LEADER_EPOCH),
        (fetch(epoch + 1, 0, cluster_id=own), Errors.UNKNOWN_LEADER_EPOCH),
        (fetch(epoch, -5, cluster_id=own), Errors.INVALID_REQUEST),
    ):
        assert error(address, request) is expected, request


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
