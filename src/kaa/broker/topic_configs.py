"""The settings of logs: what a topic has of its own, over what the broker gives to all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.config.topic import topic_values
from kaa.limits import LOG_CONFIGS_KEPT_MAX
from kaa.log.config import LogConfig, LogManagerConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.config.definition import ConfigValues
    from kaa.config.server import BrokerConfig

_SEGMENT_BYTES_FOR_TESTS: Final = "internal.segment.bytes"


def log_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """The settings of a topic's logs. Stored values were checked when they were set."""
    values: dict[str, Any] = dict(topic_values(broker, overrides).as_dict())
    small_segments = values.pop(_SEGMENT_BYTES_FOR_TESTS, None)
    if small_segments is not None:
        values["segment.bytes"] = small_segments
    values["cleanup.policy"] = frozenset(values["cleanup.policy"])
    return LogConfig(**{name.replace(".", "_"): value for name, value in values.items()})


class LogConfigs:
    """Logs with the same settings share them: a topic may have thousands of partitions."""

    def __init__(self) -> None:
        self._broker: BrokerConfig | None = None
        # By what a topic has of its own, for the settings that the broker has now.
        self._known: dict[frozenset[tuple[str, str]], LogConfig] = {}

    def get(self, broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
        if broker is not self._broker or len(self._known) >= LOG_CONFIGS_KEPT_MAX:
            self._broker = broker
            self._known.clear()
        key = frozenset(overrides.items())
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = log_config(broker, overrides)
        return found


def log_manager_config(broker: ConfigValues, defaults: LogConfig) -> LogManagerConfig:
    """The settings of storage as a whole; its fields carry the names of the broker's settings."""
    names = LogManagerConfig.__dataclass_fields__
    values: dict[str, Any] = {
        name: broker.value(name.replace("_", ".")) for name in names if name != "defaults"
    }
    return LogManagerConfig(defaults=defaults, **values)
