"""Records of the offsets topic: stored positions and classic groups."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import CoordinatorKey, CoordinatorValue, Int32, Int64, Struct, field


class LegacyOffsetCommitKey(CoordinatorKey, record_type=0, versions="0"):
    """A group's partition, as written by the first format of the offsets topic."""

    group: str = field("0")
    topic: str = field("0")
    partition: Int32 = field("0")


class LegacyOffsetCommitValue(CoordinatorValue, record_type=0, versions="0"):
    """The position, as written by the first format of the offsets topic."""

    offset: Int64 = field("0")
    metadata: str = field("0")
    commit_timestamp: Int64 = field("0")


class OffsetCommitKey(CoordinatorKey, record_type=1, versions="0"):
    """A group's partition."""

    group: str = field("0")
    topic: str = field("0")
    partition: Int32 = field("0")


class OffsetCommitValue(CoordinatorValue, record_type=1, versions="0-4", flexible="4+"):
    """The group's position in the partition."""

    offset: Int64 = field("0+")
    leader_epoch: Int32 = field("3+", default=-1, ignorable=True)
    metadata: str = field("0+")
    commit_timestamp: Int64 = field("0+")
    expire_timestamp: Int64 = field("1", default=-1, ignorable=True)
    topic_id: Uuid = field("4+", tag=0, ignorable=True)


class GroupMetadataKey(CoordinatorKey, record_type=2, versions="0"):
    """A classic group."""

    group: str = field("0")


class MemberMetadata(Struct):
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", default=None, ignorable=True)
    client_id: str = field("0+")
    client_host: str = field("0+")
    rebalance_timeout: Int32 = field("1+", default=-1, ignorable=True)
    session_timeout: Int32 = field("0+")
    subscription: bytes = field("0+")
    assignment: bytes = field("0+")


class GroupMetadataValue(CoordinatorValue, record_type=2, versions="0-4", flexible="4+"):
    """The state of a classic group with all of its members."""

    protocol_type: str = field("0+")
    generation: Int32 = field("0+")
    protocol: str | None = field("0+")
    leader: str | None = field("0+")
    current_state_timestamp: Int64 = field("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field("0+")
