"""A cluster whose metadata.version is raised to one that knows directories (KIP-858)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaa.controller.feature_table import METADATA_VERSION, METADATA_VERSION_MAX, metadata_version_of
from kaa.controller.port import ControllerRequestContext
from kaa.wire.errors import Errors
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.broker.support import config, formatted
from tests.unit.replication.movers import (
    BASIC,
    create,
    image_of,
    log_of,
    node,
    until,
)

if TYPE_CHECKING:
    import pytest

    from kaa.broker.node import Broker


async def upgrade(broker: Broker) -> None:
    level = METADATA_VERSION_MAX.level
    update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=level, upgrade_type=1)
    request = UpdateFeaturesRequest(feature_updates=[update])
    response = await broker.services.controller.submit(request, ControllerRequestContext(2))
    assert response.error_code == Errors.NONE


def test_leadership_moves_off_a_directory_that_the_cluster_came_to_know_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("kaa.controller.formatting.METADATA_VERSION_MAX", metadata_version_of("3.6"))
        files = formatted(config(*BASIC))

    async def main() -> None:
        async with node(files) as broker:

            def known() -> tuple[object, ...]:
                return broker.services.image.brokers[broker.config.node_id].directories

            await create(broker)
            await until(lambda: not log_of(broker).is_new)
            await asyncio.sleep(0.1)
            assert known() == image_of(broker).directories == ()
            epoch = broker.services.image.brokers[broker.config.node_id].epoch
            await upgrade(broker)
            directories = broker.services.logs.directories
            await until(lambda: set(known()) == {each.directory_id for each in directories})
            failing = log_of(broker).directory
            await until(lambda: image_of(broker).directories == (failing.directory_id,))
            own = broker.services.image.brokers[broker.config.node_id]
            assert (own.epoch, own.is_fenced) == (epoch, False)
            failing.fail(OSError("dead"))
            await until(lambda: image_of(broker).leader == -1)

    asyncio.run(main())
