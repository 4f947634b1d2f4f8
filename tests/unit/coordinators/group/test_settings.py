from __future__ import annotations

from kaa.config.server import load_broker_config
from kaa.config.sources import merge_settings
from kaa.coordinators.group.settings import GroupSettings, group_settings
from tests.unit.handlers.support import SETTINGS


def settings(*overrides: str) -> GroupSettings:
    return group_settings(
        load_broker_config(merge_settings(overrides=[*SETTINGS, *overrides])).config
    )


def test_defaults_are_those_of_the_broker() -> None:
    assert settings() == GroupSettings()


def test_settings_of_the_broker() -> None:
    changed = settings("group.max.size=3", "offsets.retention.minutes=2")
    assert (changed.classic_size_max, changed.offsets_retention_ms) == (3, 120_000)
