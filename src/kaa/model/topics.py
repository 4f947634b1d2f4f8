"""Names of partitions, of the topics that belong to Kafka itself, and the numbers for none."""

from typing import Final, NamedTuple

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
CLUSTER_METADATA: Final = "__cluster_metadata"
# The topics of the coordinators. Clients see the metadata log neither in lists nor by its name.
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
REMOTE_LOG_METADATA: Final = "__remote_log_metadata"
# Whatever their settings say, these stay on local disks.
NEVER_TIERED: Final = INTERNAL_TOPICS | {REMOTE_LOG_METADATA}
# Topics in which Kaa's own tools keep their state, on whatever cluster.
KAA_PREFIX: Final = "__kaa_"

# Where a field of Kafka's has no offset, no epoch (of a leader, a producer or a state), no time.
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

# A `TopicPartition` without its class, where very many are made.
PartitionName = tuple[str, int]


class TopicPartition(NamedTuple):
    """The name of a partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
