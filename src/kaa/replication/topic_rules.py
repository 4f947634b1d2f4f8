"""What the settings of a topic mean for its partitions on one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.records.batch import CompressionType, TimestampType
from kaa.records.validate import AppendRules
from kaa.replication.throttle import throttled_partitions

if TYPE_CHECKING:
    from kaa.log.config import LogConfig
    from kaa.replication.throttle import ThrottledPartitions


class TopicRules(NamedTuple):
    """What the settings of a topic mean for appends, worked out once."""

    append: AppendRules
    min_insync_replicas: int
    # Partitions whose followers, and whose replica here, keep below a rate.
    leader_throttled: ThrottledPartitions
    follower_throttled: ThrottledPartitions


def topic_rules(config: LogConfig, node_id: int) -> TopicRules:
    compression = None
    level = None
    if config.compression_type != "producer":
        name = "none" if config.compression_type == "uncompressed" else config.compression_type
        compression = CompressionType[name.upper()]
        level = getattr(config, f"compression_{name}_level", None)
    is_append_time = config.message_timestamp_type == "LogAppendTime"
    append = AppendRules(
        message_bytes_max=config.max_message_bytes,
        compression_type=compression,
        compression_level=level,
        timestamp_type=(
            TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
        ),
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        is_compacted=config.compact,
    )
    return TopicRules(
        append,
        config.min_insync_replicas,
        throttled_partitions(config.leader_replication_throttled_replicas, node_id),
        throttled_partitions(config.follower_replication_throttled_replicas, node_id),
    )
