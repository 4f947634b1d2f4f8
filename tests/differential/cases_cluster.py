"""DescribeCluster, features, registration of brokers and controllers, producer ids, envelopes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kaa.wire.frames import decode_response, encode_request
from kaa.wire.messages.embedded import DefaultPrincipalData
from kaa.wire.messages.k03_metadata import MetadataRequest
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.messages.k19_create_topics import CreateTopicsRequest
from kaa.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from kaa.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kaa.wire.messages.k58_envelope import EnvelopeRequest
from kaa.wire.messages.k60_describe_cluster import DescribeClusterRequest
from kaa.wire.messages.k62_broker_registration import BrokerRegistrationRequest, Feature, Listener
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from kaa.wire.messages.k64_unregister_broker import UnregisterBrokerRequest
from kaa.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from kaa.wire.messages.k70_controller_registration import ControllerRegistrationRequest
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
)
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    RequestDirectoryData as AssignedDirectory,
)
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    RequestPartitionData as AssignedPartition,
)
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    RequestTopicData as AssignedTopic,
)
from kaa.wire.primitives import Uuid
from kaa.wire.registry import ApiKey, api
from tests.differential.case import Ask, Compare, Story, World, case, hash_of
from tests.differential.helpers import NO_TOPIC_ID, create, settled
from tests.differential.peers import BROKER, CONTROLLER

if TYPE_CHECKING:
    from kaa.wire.schema import Request

# --- ApiVersions


@case(ApiKey.API_VERSIONS, "names of software that are refused", low=3)
def _(world: World) -> Story:
    for name, version in (("", "1"), ("x", ""), ("a b", "1"), ("-a", "1"), ("a-", "1"), ("ü", "1")):
        yield ApiVersionsRequest(client_software_name=name, client_software_version=version)


# --- DescribeCluster


@case(ApiKey.DESCRIBE_CLUSTER, "brokers", on=(BROKER,))
def _(world: World) -> Story:
    yield DescribeClusterRequest()
    yield DescribeClusterRequest(include_cluster_authorized_operations=True)


@case(ApiKey.DESCRIBE_CLUSTER, "controllers", on=(CONTROLLER,), low=1)
def _(world: World) -> Story:
    yield DescribeClusterRequest(endpoint_type=2)
    yield DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True)


@case(ApiKey.DESCRIBE_CLUSTER, "brokers from a controller", on=(CONTROLLER,))
def _(world: World) -> Story:
    yield DescribeClusterRequest(endpoint_type=1)


@case(ApiKey.DESCRIBE_CLUSTER, "endpoints of other types", low=1)
def _(world: World) -> Story:
    for kind in (0, 1, 2, 9):
        if (kind == 2) != (world.listener == CONTROLLER):
            yield DescribeClusterRequest(endpoint_type=kind)


@case(ApiKey.DESCRIBE_CLUSTER, "fenced brokers", low=2, on=(BROKER,))
def _(world: World) -> Story:
    broker_id = yield from _registered(world)
    yield from settled(world, "registered")
    yield DescribeClusterRequest(include_fenced_brokers=True)
    yield DescribeClusterRequest()
    yield UnregisterBrokerRequest(broker_id=broker_id)


# --- UpdateFeatures


def _features(*updates: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ],
        validate_only=validate_only,
    )


@case(ApiKey.UPDATE_FEATURES, "dry runs", low=1)
def _(world: World) -> Story:
    for update in (
        ("share.version", 0, 2),
        ("share.version", 0, 1),
        ("share.version", 1, 1),
        ("share.version", 1, 2),
        ("share.version", 0, 3),
        ("share.version", 9, 1),
        ("group.version", 0, 2),
        ("metadata.version", 99, 1),
        ("metadata.version", 7, 2),
        ("metadata.version", 29, 2),
        ("metadata.version", 30, 1),
        ("metadata.version", 30, 2),
        ("kraft.version", 0, 1),
        ("kraft.version", 1, 1),
        ("no.such.version", 1, 1),
        ("no.such.version", 0, 2),
        ("share.version", -1, 1),
        ("share.version", 0, 0),
        ("share.version", 0, 9),
        ("", 1, 1),
    ):
        yield _features(update, validate_only=True)
    yield _features(validate_only=True)
    yield _features(("share.version", 0, 2), ("no.such.version", 1, 1), validate_only=True)
    yield _features(("share.version", 0, 2), ("share.version", 1, 1), validate_only=True)


@case(ApiKey.UPDATE_FEATURES, "before there were dry runs", high=0)
def _(world: World) -> Story:
    for name, level in (("no.such.version", 1), ("share.version", 1), ("metadata.version", 99)):
        update = FeatureUpdateKey(feature=name, max_version_level=level)
        yield UpdateFeaturesRequest(feature_updates=[update])
    yield UpdateFeaturesRequest(feature_updates=[])


# --- brokers


def _registration(world: World, broker_id: int) -> BrokerRegistrationRequest:
    levels = {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 30),
        "share.version": (0, 1),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=world.peer.cluster_id,
        incarnation_id=Uuid(f"incarnation-{broker_id % 10_000:04d}".encode()),
        listeners=[Listener(name="PLAINTEXT", host="somewhere", port=9, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in levels.items()
        ],
        rack="a rack",
        log_dirs=[Uuid(f"directory--{broker_id % 10_000:05d}".encode())],
    )


def _broker_id(world: World) -> int:
    return 1_000 + hash_of(world.prefix) % 100_000


def _registered(world: World) -> Story:
    """A fenced broker; gives its id."""
    broker_id = _broker_id(world)
    yield Ask(_registration(world, broker_id), listener=CONTROLLER)
    return broker_id


@case(ApiKey.BROKER_REGISTRATION, "a broker that comes and goes", low=2)
def _(world: World) -> Story:
    broker_id = _broker_id(world)
    yield _registration(world, broker_id)
    yield _registration(world, broker_id)
    yield UnregisterBrokerRequest(broker_id=broker_id)


@case(ApiKey.BROKER_REGISTRATION, "what is refused", low=2)
def _(world: World) -> Story:
    broker_id = _broker_id(world)
    other = _registration(world, broker_id)
    other.cluster_id = "another-cluster"
    yield other
    without = _registration(world, broker_id)
    without.log_dirs = []
    yield without
    old = _registration(world, broker_id)
    old.features = [
        Feature(name="metadata.version", min_supported_version=1, max_supported_version=8)
    ]
    yield old
    none = _registration(world, broker_id)
    none.features = []
    yield none
    twice = _registration(world, broker_id)
    twice.log_dirs *= 2
    yield twice
    reserved = _registration(world, broker_id)
    reserved.log_dirs = [Uuid((1).to_bytes(16, "big"))]
    yield reserved


@case(ApiKey.BROKER_REGISTRATION, "before there were log directories", high=1)
def _(world: World) -> Story:
    yield _registration(world, _broker_id(world))


@case(ApiKey.BROKER_HEARTBEAT, "a broker that is behind, and one that is not")
def _(world: World) -> Story:
    broker_id = _broker_id(world)
    registered = yield Ask(_registration(world, broker_id), listener=CONTROLLER)
    epoch = registered.broker_epoch
    for offset, fence in ((-1, False), (0, True), (0, False)):
        yield BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=epoch,
            current_metadata_offset=offset,
            want_fence=fence,
        )
    yield BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=epoch,
        current_metadata_offset=epoch,
        want_fence=True,
        want_shut_down=True,
    )
    yield UnregisterBrokerRequest(broker_id=broker_id)


@case(ApiKey.BROKER_HEARTBEAT, "brokers that are not registered")
def _(world: World) -> Story:
    yield BrokerHeartbeatRequest(broker_id=_broker_id(world), broker_epoch=1)
    yield BrokerHeartbeatRequest(broker_id=-1, broker_epoch=1)
    yield BrokerHeartbeatRequest(broker_id=1, broker_epoch=-1)


@case(ApiKey.UNREGISTER_BROKER, "brokers that are there and that are not")
def _(world: World) -> Story:
    broker_id = yield from _registered(world)
    yield UnregisterBrokerRequest(broker_id=broker_id)
    yield UnregisterBrokerRequest(broker_id=broker_id)
    yield UnregisterBrokerRequest(broker_id=-1)


@case(ApiKey.ALLOCATE_PRODUCER_IDS, "blocks, and brokers that get none")
def _(world: World) -> Story:
    broker_id = _broker_id(world)
    registered = yield Ask(_registration(world, broker_id), listener=CONTROLLER)
    epoch = registered.broker_epoch
    yield AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
    yield AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch + 1)
    yield AllocateProducerIdsRequest(broker_id=broker_id + 1, broker_epoch=epoch)
    yield UnregisterBrokerRequest(broker_id=broker_id)


@case(ApiKey.ALTER_PARTITION, "brokers that lead nothing")
def _(world: World) -> Story:
    topic_id = yield from create(world)
    broker_id = _broker_id(world)
    registered = yield Ask(_registration(world, broker_id), listener=CONTROLLER)
    epoch = registered.broker_epoch
    for found, number in ((topic_id, 0), (topic_id, 9), (NO_TOPIC_ID, 0)):
        partition = RequestPartitionData(partition_index=number)
        topics = [RequestTopicData(topic_id=found, partitions=[partition])]
        yield AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=topics)
        yield AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch - 1, topics=topics)
    yield AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=[])
    yield UnregisterBrokerRequest(broker_id=broker_id)


@case(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "brokers that have nothing")
def _(world: World) -> Story:
    broker_id = _broker_id(world)
    registered = yield Ask(_registration(world, broker_id), listener=CONTROLLER)
    epoch = registered.broker_epoch
    yield AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=epoch, directories=[])
    yield AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=epoch - 1, directories=[])
    yield UnregisterBrokerRequest(broker_id=broker_id)


@case(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "replicas and topics of others, and unknown directories")
def _(world: World) -> Story:
    topic_id = yield from create(world)
    broker_id = _broker_id(world)
    registration = _registration(world, broker_id)
    registered = yield Ask(registration, listener=CONTROLLER)
    epoch = registered.broker_epoch
    for directory in (registration.log_dirs[0], NO_TOPIC_ID):
        for found, numbers in ((topic_id, [0, 9]), (NO_TOPIC_ID, [0]), (topic_id, [])):
            topic = AssignedTopic(
                topic_id=found,
                partitions=[AssignedPartition(partition_index=number) for number in numbers],
            )
            yield AssignReplicasToDirsRequest(
                broker_id=broker_id,
                broker_epoch=epoch,
                directories=[AssignedDirectory(id=directory, topics=[topic])],
            )
    yield UnregisterBrokerRequest(broker_id=broker_id)


@case(ApiKey.CONTROLLER_REGISTRATION, "a controller that does not fit")
def _(world: World) -> Story:
    yield ControllerRegistrationRequest(
        controller_id=9, incarnation_id=Uuid(b"controller-nine-"), listeners=[], features=[]
    )


# --- Envelope

_PRINCIPAL = struct.pack(">h", 0) + DefaultPrincipalData(type="User", name="ANONYMOUS").encode(0)


def _envelope(
    request: Request | bytes,
    version: int = 0,
    principal: bytes | None = _PRINCIPAL,
    address: bytes = bytes((127, 0, 0, 1)),
) -> EnvelopeRequest:
    data = request
    if not isinstance(data, bytes):
        data = b"".join(encode_request(data, version, 5, "client"))[4:]
    return EnvelopeRequest(
        request_data=data, request_principal=principal, client_host_address=address
    )


@case(ApiKey.ENVELOPE, "requests of clients")
def _(world: World) -> Story:
    for request, version in (
        (CreateTopicsRequest(topics=[], timeout_ms=100), 7),
        (CreateTopicsRequest(topics=[], timeout_ms=100), 2),
        (ListPartitionReassignmentsRequest(topics=[]), 0),
        (UnregisterBrokerRequest(broker_id=-1), 0),
    ):
        response = yield _envelope(request, version)
        key = api(request.api_key)
        yield Compare(decode_response(response.response_data, key, version)[1])


@case(ApiKey.ENVELOPE, "what cannot be opened")
def _(world: World) -> Story:
    create_topics = CreateTopicsRequest(topics=[], timeout_ms=100)
    yield _envelope(create_topics, 7, principal=None)
    yield _envelope(create_topics, 7, principal=b"")
    yield _envelope(create_topics, 7, principal=b"\0\1\0")
    yield _envelope(create_topics, 7, address=b"\x7f")
    yield _envelope(create_topics, 7, address=b"")
    yield _envelope(MetadataRequest(topics=[]), 7)
    yield _envelope(b"abc")
    yield _envelope(b"\0\x13\0\x63\0\0\0\1\0\0")
    yield _envelope(b"\0\x13\0\x05\0\0\0\1\0\0")
