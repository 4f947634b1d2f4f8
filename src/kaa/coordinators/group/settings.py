"""The settings of broker and group that the group coordinator works with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.config.group import group_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.config.server import BrokerConfig


class ConsumerTimes(NamedTuple):
    """Times of a consumer group; each group may have its own. Defaults are those of Kafka."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class ShareTimes(NamedTuple):
    """Times of a share group; each group may have its own. Defaults are those of Kafka."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class StreamsTimes(NamedTuple):
    """What a streams group may set for itself. Defaults are those of Kafka."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    num_standby_replicas: int = 0
    initial_rebalance_delay_ms: int = 3_000


class GroupSettings(NamedTuple):
    """Defaults are those of Kafka."""

    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    classic_size_max: int = 2**31 - 1
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_size_max: int = 2**31 - 1
    # The first one is taken where members do not name one.
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    # Whether groups of the classic protocol may become consumer groups, and the other way.
    is_upgrade_enabled: bool = True
    is_downgrade_enabled: bool = True
    regex_refresh_interval_ms: int = 600_000
    share_size_max: int = 200
    share_initialise_retry_ms: int = 30_000
    streams_size_max: int = 2**31 - 1


def group_settings(config: BrokerConfig) -> GroupSettings:
    policy = config.get_string("group.consumer.migration.policy").lower()
    return GroupSettings(
        config.get_int("group.initial.rebalance.delay.ms"),
        config.get_int("group.min.session.timeout.ms"),
        config.get_int("group.max.session.timeout.ms"),
        config.get_int("group.max.size"),
        config.get_int("offset.metadata.max.bytes"),
        config.get_int("offsets.retention.minutes") * 60_000,
        config.get_int("offsets.retention.check.interval.ms"),
        config.get_int("group.consumer.max.size"),
        config.consumer_assignors,
        policy in {"bidirectional", "upgrade"},
        policy in {"bidirectional", "downgrade"},
        config.get_int("group.consumer.regex.refresh.interval.ms"),
        config.get_int("group.share.max.size"),
        config.get_int("group.share.initialize.retry.interval.ms"),
        config.get_int("group.streams.max.size"),
    )


def consumer_times(config: BrokerConfig, overrides: Mapping[str, str]) -> ConsumerTimes:
    """The times of a group with settings of its own, or with none."""
    values = group_values(config, overrides)
    return ConsumerTimes(
        values.get_int("consumer.session.timeout.ms"),
        values.get_int("consumer.heartbeat.interval.ms"),
        values.get_int("consumer.assignment.interval.ms"),
    )


def share_times(config: BrokerConfig, overrides: Mapping[str, str]) -> ShareTimes:
    """The times of a share group with settings of its own, or with none."""
    values = group_values(config, overrides)
    return ShareTimes(
        values.get_int("share.session.timeout.ms"),
        values.get_int("share.heartbeat.interval.ms"),
        values.get_int("share.assignment.interval.ms"),
    )


def streams_times(config: BrokerConfig, overrides: Mapping[str, str]) -> StreamsTimes:
    """The same of a streams group."""
    values = group_values(config, overrides)
    return StreamsTimes(
        values.get_int("streams.session.timeout.ms"),
        values.get_int("streams.heartbeat.interval.ms"),
        values.get_int("streams.assignment.interval.ms"),
        values.get_int("streams.num.standby.replicas"),
        values.get_int("streams.initial.rebalance.delay.ms"),
    )
