"""The times of groups, from the settings of the broker and of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from kaa.model.kinds import ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaa.config.server import BrokerConfig
    from kaa.serving.view import NodeView


Times = TypeVar("Times")


class GroupTimes(Generic[Times]):
    """The times of groups of one kind by their ids; most have no settings of their own."""

    def __init__(
        self, view: NodeView, make: Callable[[BrokerConfig, Mapping[str, str]], Times]
    ) -> None:
        self._view = view
        self._make = make
        self._config: BrokerConfig | None = None

    def __call__(self, group_id: str) -> Times:
        config = self._view.config
        overrides = self._view.image.configs.get((ResourceType.GROUP, group_id))
        if overrides:
            return self._make(config, overrides)
        if self._config is not config:
            self._config = config
            self._default = self._make(config, {})
        return self._default
