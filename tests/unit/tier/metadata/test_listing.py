"""The metadata topic read once, from a real node."""

from __future__ import annotations

import asyncio

from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.producer.producer import Producer
from kaa.model.topics import REMOTE_LOG_METADATA
from kaa.testing import Broker
from kaa.tier.metadata.listing import read_remote_logs
from kaa.tier.metadata.model import SegmentState
from kaa.tier.metadata.records import encode_event, metadata_partition
from tests.unit.tier.metadata.samples import PARTITION, segment, update


def test_only_what_is_asked_for_is_read() -> None:
    async def story(servers: str) -> None:
        settings = {"bootstrap.servers": servers}
        other = PARTITION._replace(partition=PARTITION.partition + 1)
        async with Admin(settings) as admin, Producer(settings) as producer:
            await admin.create_topics([NewTopic(REMOTE_LOG_METADATA, 7, 1)])
            number = metadata_partition(PARTITION, 7)
            for event in (segment(1, 0, 9), update(1, SegmentState.COPY_SEGMENT_FINISHED)):
                sent = await producer.send(
                    REMOTE_LOG_METADATA, encode_event(event), partition=number
                )
                await sent
            found = await read_remote_logs(admin, settings, [PARTITION, other])
        assert found[PARTITION].find(0, 5) is not None
        assert len(found[other]) == 0

    with Broker() as broker:
        asyncio.run(story(broker.bootstrap_servers))
