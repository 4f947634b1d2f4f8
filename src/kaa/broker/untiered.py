"""What a node without tiered storage has to know of it.

Apart from `tiering`, which brings a client of its own and much else that most nodes never need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.broker.directories import StartError
from kaa.model.kinds import ResourceType

if TYPE_CHECKING:
    from kaa.config.server import BrokerConfig
    from kaa.controller.image import ClusterImage


def is_tiering(config: BrokerConfig) -> bool:
    """Whether this node keeps segments in remote storage."""
    return config.get_boolean("remote.log.storage.system.enable")


def refuse_tiered_topics(image: ClusterImage) -> None:
    """A node without tiered storage would take the local tail of a topic for all of it."""
    tiered = sorted(
        name
        for (kind, name), settings in image.configs.items()
        if kind == ResourceType.TOPIC
        and settings.get("remote.storage.enable", "").lower() == "true"
    )
    if tiered:
        raise StartError(
            f"topics are in remote storage ({', '.join(tiered[:5])}); set "
            "remote.log.storage.system.enable=true, or first take them out of it with "
            "remote.storage.enable=false and remote.log.delete.on.disable=true"
        )
