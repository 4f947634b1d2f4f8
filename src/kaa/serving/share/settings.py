"""The settings of share groups that share-partition leaders work with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.config.group import group_values
from kaa.log.log import FetchIsolation
from kaa.model.kinds import ResourceType
from kaa.serving.share.machine import ShareSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.config.server import BrokerConfig
    from kaa.serving.view import NodeView


class GroupShareSettings(NamedTuple):
    """What a share group may set for itself. Defaults are those of Kafka."""

    partitions: ShareSettings = ShareSettings()
    isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK
    # earliest, latest, or by_duration: with a duration.
    offset_reset: str = "latest"


def group_share_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> GroupShareSettings:
    values = group_values(config, overrides)
    is_committed = values.get_string("share.isolation.level") == "read_committed"
    return GroupShareSettings(
        ShareSettings(
            values.get_int("share.record.lock.duration.ms"),
            values.get_int("share.delivery.count.limit"),
            values.get_int("share.partition.max.record.locks"),
            values.get_boolean("share.renew.acknowledge.enable"),
        ),
        FetchIsolation.TXN_COMMITTED if is_committed else FetchIsolation.HIGH_WATERMARK,
        values.get_string("share.auto.offset.reset"),
    )


class ShareGroupSettings:
    """The settings of one group. They are asked for with every record and change almost never: they
    are made again when the settings of the broker or of the group were replaced.
    """

    def __init__(self, view: NodeView, group_id: str) -> None:
        self._view = view
        self._group_id = group_id
        self._config: BrokerConfig | None = None
        self._overrides: Mapping[str, str] | None = None
        self._value = GroupShareSettings()

    def __call__(self) -> GroupShareSettings:
        config = self._view.config
        overrides = self._view.image.configs.get((ResourceType.GROUP, self._group_id))
        if self._config is not config or self._overrides != overrides:
            # Of the group's a copy: they change where they are.
            self._config, self._overrides = config, overrides and dict(overrides)
            self._value = group_share_settings(config, overrides or {})
        return self._value

    def partitions(self) -> ShareSettings:
        return self().partitions
