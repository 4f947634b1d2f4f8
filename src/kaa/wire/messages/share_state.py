"""Records of the share-group-state topic."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import (
    CoordinatorKey,
    CoordinatorValue,
    Int8,
    Int16,
    Int32,
    Int64,
    Struct,
    field,
)


class ShareSnapshotKey(CoordinatorKey, record_type=0, versions="0"):
    """The share partition whose whole state follows."""

    group_id: str = field("0")
    topic_id: Uuid = field("0")
    partition: Int32 = field("0")


class StateBatch(Struct):
    first_offset: Int64 = field("0+")
    last_offset: Int64 = field("0+")
    delivery_state: Int8 = field("0+")
    delivery_count: Int16 = field("0+")


class ShareSnapshotValue(CoordinatorValue, record_type=0, versions="0", flexible="0+"):
    """The whole state of a share partition."""

    snapshot_epoch: Int32 = field("0+")
    state_epoch: Int32 = field("0+")
    leader_epoch: Int32 = field("0+")
    start_offset: Int64 = field("0+")
    delivery_complete_count: Int32 = field("0+", default=-1, tag=0)
    create_timestamp: Int64 = field("0+")
    write_timestamp: Int64 = field("0+")
    state_batches: list[StateBatch] = field("0+")


class ShareUpdateKey(CoordinatorKey, record_type=1, versions="0"):
    """The share partition whose state changed."""

    group_id: str = field("0")
    topic_id: Uuid = field("0")
    partition: Int32 = field("0")


class ShareUpdateValue(CoordinatorValue, record_type=1, versions="0", flexible="0+"):
    """A change of a share partition's state since its last snapshot."""

    snapshot_epoch: Int32 = field("0+")
    leader_epoch: Int32 = field("0+")
    start_offset: Int64 = field("0+")
    delivery_complete_count: Int32 = field("0+", default=-1, tag=0)
    state_batches: list[StateBatch] = field("0+")
