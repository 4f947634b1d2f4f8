"""Where static settings come from, and which one counts.

From weakest to strongest: Kaa's development defaults (only where no file is given), the file, the
environment, the command line. Every setting remembers its source and the place in it, so that a
message can say what to edit.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from kaa import limits
from kaa.config.environment import environment_settings
from kaa.config.properties import Property, decode_properties
from kaa.config.values import ConfigError, shown, trimmed


class SettingSource(Enum):
    """What a static setting was read from."""

    DEVELOPMENT = "development default"
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


class Setting(NamedTuple):
    """A setting as text, its source and the place in it, such as `server.properties line 3`."""

    name: str
    text: str
    source: SettingSource
    place: str


Settings = dict[str, Setting]
"""The settings that count, by name."""


def parse_override(text: str) -> tuple[str, str]:
    """Name and value of a command-line override `name=value`."""
    name, equals, value = text.partition("=")
    if not equals or not trimmed(name):
        raise ConfigError(f"Cannot read the override {shown(text)}: write name=value.")
    return trimmed(name), value


def merge_settings(
    *,
    development: Mapping[str, str] | None = None,
    file: Iterable[Property] = (),
    file_name: str = "",
    environment: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
) -> Settings:
    """The settings that count out of all sources; `overrides` are `name=value` texts."""
    settings: Settings = {}
    for name, value in (development or {}).items():
        settings[name] = Setting(name, value, SettingSource.DEVELOPMENT, "a development default")
    for name, value, line in file:
        settings[name] = Setting(name, value, SettingSource.FILE, f"{file_name} line {line}")
    for name, value, variable in environment_settings(environment or {}):
        settings[name] = Setting(name, value, SettingSource.ENVIRONMENT, variable)
    for override in overrides:
        name, value = parse_override(override)
        settings[name] = Setting(name, value, SettingSource.COMMAND_LINE, "the command line")
    if len(settings) > limits.CONFIG_SETTINGS_MAX:
        raise ConfigError(
            f"Too many settings: {len(settings)}, the limit is {limits.CONFIG_SETTINGS_MAX}."
        )
    return settings


def file_settings(data: bytes, file_name: str) -> Settings:
    """The settings of one properties file."""
    return merge_settings(file=decode_properties(data), file_name=file_name)
