"""Metadata records of nodes, features and the log itself (KIP-631)."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int8, Int16, Int32, Int64, MetadataRecord, Struct, Uint16, field


class BrokerEndpoint(Struct):
    name: str = field("0+")
    host: str = field("0+")
    port: Uint16 = field("0+")
    security_protocol: Int16 = field("0+")


class BrokerFeature(Struct):
    name: str = field("0+")
    min_supported_version: Int16 = field("0+")
    max_supported_version: Int16 = field("0+")


class RegisterBrokerRecord(MetadataRecord, record_type=0, versions="0-4", flexible="0+"):
    """A broker registered."""

    broker_id: Int32 = field("0+")
    is_migrating_zk_broker: bool = field("2+")
    incarnation_id: Uuid = field("0+")
    broker_epoch: Int64 = field("0+")
    end_points: list[BrokerEndpoint] = field("0+")
    features: list[BrokerFeature] = field("0+")
    rack: str | None = field("0+")
    fenced: bool = field("0+", default=True)
    in_controlled_shutdown: bool = field("1+")
    log_dirs: list[Uuid] = field("3+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = field("4+", default=None, tag=1)


class UnregisterBrokerRecord(MetadataRecord, record_type=1, versions="0", flexible="0+"):
    """A broker's registration was removed."""

    broker_id: Int32 = field("0+")
    broker_epoch: Int64 = field("0+")


class FenceBrokerRecord(MetadataRecord, record_type=7, versions="0", flexible="0+"):
    """A broker was fenced; superseded by BrokerRegistrationChangeRecord."""

    id: Int32 = field("0+")
    epoch: Int64 = field("0+")


class UnfenceBrokerRecord(MetadataRecord, record_type=8, versions="0", flexible="0+"):
    """A broker was unfenced; superseded by BrokerRegistrationChangeRecord."""

    id: Int32 = field("0+")
    epoch: Int64 = field("0+")


class FeatureLevelRecord(MetadataRecord, record_type=12, versions="0", flexible="0+"):
    """A feature was finalized at a level."""

    name: str = field("0+")
    feature_level: Int16 = field("0+")


class ProducerIdsRecord(MetadataRecord, record_type=15, versions="0", flexible="0+"):
    """A block of producer ids was handed to a broker."""

    broker_id: Int32 = field("0+")
    broker_epoch: Int64 = field("0+", default=-1)
    next_producer_id: Int64 = field("0+")


class BrokerRegistrationChangeRecord(MetadataRecord, record_type=17, versions="0-3", flexible="0+"):
    """Part of a broker's registration changed."""

    broker_id: Int32 = field("0+")
    broker_epoch: Int64 = field("0+")
    fenced: Int8 = field("0+", tag=0)
    in_controlled_shutdown: Int8 = field("1+", tag=1)
    log_dirs: list[Uuid] = field("2+", tag=2)
    cordoned_log_dirs: list[Uuid] | None = field("3+", default=None, tag=3)


class NoOpRecord(MetadataRecord, record_type=20, versions="0", flexible="0+"):
    """Nothing changed: written so that the log's end keeps moving."""


class ZkMigrationStateRecord(MetadataRecord, record_type=21, versions="0", flexible="0+"):
    """The state of a migration from ZooKeeper; read, never written."""

    zk_migration_state: Int8 = field("0+")


class BeginTransactionRecord(MetadataRecord, record_type=23, versions="0", flexible="0+"):
    """Opens a group of metadata records that take effect together."""

    name: str | None = field("0+", default=None, tag=0)


class EndTransactionRecord(MetadataRecord, record_type=24, versions="0", flexible="0+"):
    """Closes a group of metadata records, which now take effect."""


class AbortTransactionRecord(MetadataRecord, record_type=25, versions="0", flexible="0+"):
    """Undoes the metadata records since the matching begin."""

    reason: str | None = field("0+", default=None, tag=0)


class ControllerEndpoint(Struct):
    name: str = field("0+")
    host: str = field("0+")
    port: Uint16 = field("0+")
    security_protocol: Int16 = field("0+")


class ControllerFeature(Struct):
    name: str = field("0+")
    min_supported_version: Int16 = field("0+")
    max_supported_version: Int16 = field("0+")


class RegisterControllerRecord(MetadataRecord, record_type=27, versions="0", flexible="0+"):
    """A controller registered."""

    controller_id: Int32 = field("0+")
    incarnation_id: Uuid = field("0+")
    zk_migration_ready: bool = field("0+")
    end_points: list[ControllerEndpoint] = field("0+")
    features: list[ControllerFeature] = field("0+")
