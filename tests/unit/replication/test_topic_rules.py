from __future__ import annotations

from dataclasses import replace

from kaa.log.config import LogConfig
from kaa.records.batch import CompressionType, TimestampType
from kaa.replication.topic_rules import topic_rules

NODE = 1


def test_compression_is_that_of_the_producer_unless_the_topic_has_its_own() -> None:
    assert topic_rules(LogConfig(), NODE).append.compression_type is None
    plain = topic_rules(replace(LogConfig(), compression_type="uncompressed"), NODE)
    assert plain.append.compression_type is CompressionType.NONE
    zstd = replace(LogConfig(), compression_type="zstd", compression_zstd_level=7)
    rules = topic_rules(zstd, NODE).append
    assert (rules.compression_type, rules.compression_level) == (CompressionType.ZSTD, 7)


def test_times_policy_and_sizes_are_taken_over() -> None:
    config = replace(
        LogConfig(),
        message_timestamp_type="LogAppendTime",
        max_message_bytes=77,
        min_insync_replicas=2,
    )
    rules = topic_rules(config, NODE)
    assert rules.append.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert rules.append.message_bytes_max == 77
    assert rules.min_insync_replicas == 2
    default = topic_rules(LogConfig(), NODE).append
    assert default.timestamp_type is TimestampType.CREATE_TIME
