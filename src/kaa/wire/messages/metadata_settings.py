"""Metadata records of configurations, quotas, access control and credentials (KIP-631)."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Float64, Int8, Int32, Int64, MetadataRecord, Struct, field


class ConfigRecord(MetadataRecord, record_type=4, versions="0", flexible="0+"):
    """A setting of a resource was set, or with a null value unset."""

    resource_type: Int8 = field("0+")
    resource_name: str = field("0+")
    name: str = field("0+")
    value: str | None = field("0+")


class DelegationTokenRecord(MetadataRecord, record_type=10, versions="0", flexible="0+"):
    """A delegation token was created or prolonged."""

    owner: str = field("0+")
    requester: str = field("0+")
    renewers: list[str] = field("0+")
    issue_timestamp: Int64 = field("0+")
    max_timestamp: Int64 = field("0+")
    expiration_timestamp: Int64 = field("0+")
    token_id: str = field("0+")


class UserScramCredentialRecord(MetadataRecord, record_type=11, versions="0", flexible="0+"):
    """A user's SCRAM credential was set."""

    name: str = field("0+")
    mechanism: Int8 = field("0+")
    salt: bytes = field("0+")
    stored_key: bytes = field("0+")
    server_key: bytes = field("0+")
    iterations: Int32 = field("0+")


class EntityData(Struct):
    entity_type: str = field("0+")
    entity_name: str | None = field("0+")


class ClientQuotaRecord(MetadataRecord, record_type=14, versions="0", flexible="0+"):
    """A client quota was set or removed."""

    entity: list[EntityData] = field("0+")
    key: str = field("0+")
    value: Float64 = field("0+")
    remove: bool = field("0+")


class AccessControlEntryRecord(MetadataRecord, record_type=18, versions="0", flexible="0+"):
    """An access-control entry came into being."""

    id: Uuid = field("0+")
    resource_type: Int8 = field("0+")
    resource_name: str = field("0+")
    pattern_type: Int8 = field("0+")
    principal: str = field("0+")
    host: str = field("0+")
    operation: Int8 = field("0+")
    permission_type: Int8 = field("0+")


class RemoveAccessControlEntryRecord(MetadataRecord, record_type=19, versions="0", flexible="0+"):
    """An access-control entry was deleted."""

    id: Uuid = field("0+")


class RemoveUserScramCredentialRecord(MetadataRecord, record_type=22, versions="0", flexible="0+"):
    """A user's SCRAM credential was deleted."""

    name: str = field("0+")
    mechanism: Int8 = field("0+")


class RemoveDelegationTokenRecord(MetadataRecord, record_type=26, versions="0", flexible="0+"):
    """A delegation token ended."""

    token_id: str = field("0+")
