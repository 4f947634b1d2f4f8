from __future__ import annotations

import asyncio

from kaa.broker.node import Broker, running
from kaa.wire.primitives import Uuid
from tests.unit.broker.support import formatted
from tests.unit.broker.test_lost_directories import (
    PARTITIONS,
    SETTINGS,
    create_topic,
    directories,
    until,
)


def test_metadata_learns_the_directory_of_every_replica() -> None:
    async def main() -> None:
        async with running(Broker(SETTINGS, files=formatted(SETTINGS))) as broker:
            await create_topic(broker, "t")

            def in_logs() -> list[Uuid | None]:
                return [
                    log.directory.directory_id
                    for partition, log in sorted(broker.services.logs.logs.items())
                    if partition.topic == "t"
                ]

            await until(lambda: len(in_logs()) == PARTITIONS)
            await until(lambda: directories(broker, "t") == in_logs())
            assert len(set(in_logs())) == 2

    asyncio.run(main())
