from __future__ import annotations

import subprocess
import sys

import pytest

from kaa.broker.directories import StartError
from kaa.broker.untiered import is_tiering, refuse_tiered_topics
from kaa.controller.image import ClusterImage
from kaa.wire.messages.metadata_settings import ConfigRecord
from tests.unit.broker.support import config

UNNEEDED = ("kaa.tier", "kaa.client.admin", "kaa.client.producer", "kaa.client.consumer.consumer")


def test_a_node_is_tiering_if_its_settings_say_so() -> None:
    assert is_tiering(config("remote.log.storage.system.enable=true"))
    assert not is_tiering(config())


def test_a_node_without_a_tier_loads_nothing_of_it() -> None:
    """It would be a tenth of what every start imports."""
    program = "import sys, kaa.broker.node; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "kaa.broker.node" in loaded
    assert not [name for name in loaded if name.startswith(UNNEEDED)]


def test_a_node_without_the_tier_of_its_topics_does_not_start() -> None:
    image = ClusterImage()
    refuse_tiered_topics(image)
    image.replay(
        ConfigRecord(resource_type=2, resource_name="t", name="remote.storage.enable", value="true")
    )
    with pytest.raises(StartError, match=r"topics are in remote storage \(t\)"):
        refuse_tiered_topics(image)
