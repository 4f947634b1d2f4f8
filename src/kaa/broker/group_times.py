"""The times of consumer groups, from the settings of the broker and of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.settings import ConsumerTimes, consumer_times

if TYPE_CHECKING:
    from kaa.config.server import BrokerConfig
    from kaa.serving.services import Services

_GROUP_RESOURCE: Final = 32


class GroupTimes:
    """The times of consumer groups by their ids; most have no settings of their own."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._config: BrokerConfig | None = None
        self._default = ConsumerTimes()

    def __call__(self, group_id: str) -> ConsumerTimes:
        config = self._services.config
        overrides = self._services.image.configs.get((_GROUP_RESOURCE, group_id))
        if overrides:
            return consumer_times(config, overrides)
        if self._config is not config:
            self._config = config
            self._default = consumer_times(config, {})
        return self._default
