"""`kaa consume --share`: records as one of a share group, each accepted when it is printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.cli.record_format import RecordWriter


async def consume_share(
    settings: Mapping[str, object],
    topics: Sequence[str],
    group: str,
    count: int | None,
    writer: RecordWriter,
) -> None:
    """Prints records until there were enough; what was fetched beyond is left to others."""
    from kaa.client.consumer.records import ConsumerRecord
    from kaa.client.share.consumer import AcknowledgeType, ShareConsumer

    left = sys.maxsize if count is None else count
    out = sys.stdout.buffer
    chosen = {
        **settings,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        "share.acquire.mode": "record_limit",
    }
    if count is not None:
        # Nobody else can have what is held here.
        chosen["max.poll.records"] = min(count, 500)
    async with ShareConsumer(chosen) as consumer:
        consumer.subscribe(topics)
        while left > 0:
            records = await consumer.poll()
            for record in records[:left]:
                plain = ConsumerRecord(*record[:7])
                out.write(writer.write(record.topic, record.partition, plain))
            # What cannot be written is held until the end of the consumer gives it to others.
            out.flush()
            for record in records[:left]:
                consumer.acknowledge(record)
            for record in records[left:]:
                consumer.acknowledge(record, AcknowledgeType.RELEASE)
            left -= len(records[:left])
            await consumer.commit()
