"""The settings of the broker that the group coordinator works with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kaa.config.server import BrokerConfig


class GroupSettings(NamedTuple):
    """Defaults are those of Kafka."""

    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    classic_size_max: int = 2**31 - 1
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000


def group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        config.get_int("group.initial.rebalance.delay.ms"),
        config.get_int("group.min.session.timeout.ms"),
        config.get_int("group.max.session.timeout.ms"),
        config.get_int("group.max.size"),
        config.get_int("offset.metadata.max.bytes"),
        config.get_int("offsets.retention.minutes") * 60_000,
        config.get_int("offsets.retention.check.interval.ms"),
    )
