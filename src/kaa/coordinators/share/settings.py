"""The settings of the broker that the share coordinator works with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kaa.config.server import BrokerConfig


class ShareStateSettings(NamedTuple):
    """Defaults are those of Kafka."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
    prune_interval_ms: int = 300_000


def share_state_settings(config: BrokerConfig) -> ShareStateSettings:
    return ShareStateSettings(
        config.get_int("share.coordinator.snapshot.update.records.per.snapshot"),
        config.get_int("share.coordinator.cold.partition.snapshot.interval.ms"),
        config.get_int("share.coordinator.state.topic.prune.interval.ms"),
    )
