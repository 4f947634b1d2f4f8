"""Metadata records of topics and partitions (KIP-631)."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int8, Int32, MetadataRecord, field


class TopicRecord(MetadataRecord, record_type=2, versions="0", flexible="0+"):
    """A topic came into being."""

    name: str = field("0+")
    topic_id: Uuid = field("0+")


class PartitionRecord(MetadataRecord, record_type=3, versions="0-2", flexible="0+"):
    """A partition came into being, or in a snapshot its whole state."""

    partition_id: Int32 = field("0+", default=-1)
    topic_id: Uuid = field("0+")
    replicas: list[Int32] = field("0+")
    isr: list[Int32] = field("0+")
    removing_replicas: list[Int32] = field("0+")
    adding_replicas: list[Int32] = field("0+")
    leader: Int32 = field("0+", default=-1)
    leader_recovery_state: Int8 = field("0+", tag=0)
    leader_epoch: Int32 = field("0+", default=-1)
    partition_epoch: Int32 = field("0+", default=-1)
    directories: list[Uuid] = field("1+")
    eligible_leader_replicas: list[Int32] | None = field("2+", default=None, tag=1)
    last_known_elr: list[Int32] | None = field("2+", default=None, tag=2)


class PartitionChangeRecord(MetadataRecord, record_type=5, versions="0-2", flexible="0+"):
    """Part of a partition's state changed; what is absent stayed as it was."""

    partition_id: Int32 = field("0+", default=-1)
    topic_id: Uuid = field("0+")
    isr: list[Int32] | None = field("0+", default=None, tag=0)
    leader: Int32 = field("0+", default=-2, tag=1)
    replicas: list[Int32] | None = field("0+", default=None, tag=2)
    removing_replicas: list[Int32] | None = field("0+", default=None, tag=3)
    adding_replicas: list[Int32] | None = field("0+", default=None, tag=4)
    leader_recovery_state: Int8 = field("0+", default=-1, tag=5)
    directories: list[Uuid] | None = field("1+", default=None, tag=8)
    eligible_leader_replicas: list[Int32] | None = field("2+", default=None, tag=6)
    last_known_elr: list[Int32] | None = field("2+", default=None, tag=7)


class RemoveTopicRecord(MetadataRecord, record_type=9, versions="0", flexible="0+"):
    """A topic was deleted with all of its partitions."""

    topic_id: Uuid = field("0+")


class ClearElrRecord(MetadataRecord, record_type=28, versions="0", flexible="0+"):
    """The eligible leader replicas of a topic, or of all topics, were cleared."""

    topic_name: str = field("0+")
