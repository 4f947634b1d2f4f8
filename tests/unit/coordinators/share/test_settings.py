from __future__ import annotations

from kaa.coordinators.share.settings import ShareStateSettings, share_state_settings
from tests.unit.handlers.support import Node


def test_defaults_are_those_of_the_broker() -> None:
    assert share_state_settings(Node().config) == ShareStateSettings()
