"""The remote segments of some partitions, read once from the metadata topic by any client.

Only the metadata partitions that these partitions fall to are read, up to where they end now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.client.consumer.consumer import Consumer
from kaa.client.consumer.offsets import EARLIEST, LATEST
from kaa.limits import TIER_METADATA_POLL_MS
from kaa.model.topics import REMOTE_LOG_METADATA, TopicPartition
from kaa.tier.metadata.machine import MetadataMachine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.client.admin.admin import Admin
    from kaa.tier.metadata.cache import RemoteLogCache
    from kaa.tier.metadata.model import TopicIdPartition


async def read_remote_logs(
    admin: Admin, settings: Mapping[str, str], partitions: Iterable[TopicIdPartition]
) -> dict[TopicIdPartition, RemoteLogCache]:
    """What is known of each partition; ClientError, RemoteMetadataError for a damaged record."""
    wanted = list(partitions)
    described = await admin.describe_topic(REMOTE_LOG_METADATA)
    machine = MetadataMachine(len(described.partitions))
    machine.assign(wanted)
    names = {number: TopicPartition(REMOTE_LOG_METADATA, number) for number, _ in machine.reading()}
    starts = await admin.list_offsets(dict.fromkeys(names.values(), EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(names.values(), LATEST))
    for number, name in names.items():
        machine.trimmed(number, starts[name].offset)
        machine.set_target(number, ends[name].offset)
    reading = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    async with Consumer(dict(settings) | reading) as consumer:
        consumer.assign(names.values())
        for number, state in machine.reading():
            consumer.seek(names[number], state.position)
        while any(not state.is_ready for _, state in machine.reading()):
            polled = await consumer.poll(timeout_ms=TIER_METADATA_POLL_MS)
            for name, records in polled.items():
                for record in records:
                    machine.apply(name.partition, record.offset, record.value)
    return {one: machine.user(one).cache for one in wanted}
