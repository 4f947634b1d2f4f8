"""An image as records: what a metadata snapshot holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.wire.messages.metadata_cluster import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from kaa.wire.messages.metadata_settings import ClientQuotaRecord, ConfigRecord, EntityData
from kaa.wire.messages.metadata_topics import PartitionRecord, TopicRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.controller.image import BrokerImage, ClusterImage, ControllerImage, PartitionImage
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord

_METADATA_VERSION = "metadata.version"


def records_of(image: ClusterImage) -> Iterator[MetadataRecord]:
    """Features first, `metadata.version` before all, since it decides how the rest is read."""
    for name in sorted(image.features, key=lambda name: (name != _METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield _broker_record(broker)
    for controller in image.controllers.values():
        yield _controller_record(controller)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for number, partition in topic.partitions.items():
            yield partition_record(topic.id, number, partition)
    for (resource_type, resource_name), values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=value
            )
    for entity, quotas in image.quotas.items():
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, limit in quotas.items():
            yield ClientQuotaRecord(entity=parts, key=key, value=limit)
    if image.producer_ids_record is not None:
        yield image.producer_ids_record
    yield from image.acls.values()
    yield from image.scram_credentials.values()
    yield from image.delegation_tokens.values()


def partition_record(topic_id: Uuid, number: int, partition: PartitionImage) -> PartitionRecord:
    """The whole state of a partition as one record."""
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    cordoned = broker.cordoned_directories
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=name, host=host, port=port, security_protocol=protocol)
            for name, host, port, protocol in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def _controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=name, host=host, port=port, security_protocol=protocol)
            for name, host, port, protocol in controller.endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in controller.features.items()
        ],
    )
