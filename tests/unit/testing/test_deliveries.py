from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from kaa.coordinators.share.batches import StateBatch
from kaa.coordinators.share.state import SharePartitionKey
from kaa.handlers.context import response_of
from kaa.net.pending import Pending
from kaa.serving.share.in_flight import RecordState
from kaa.serving.share.machine import SharePartition, ShareSettings
from kaa.testing.deliveries import Deliveries, Handed, held
from kaa.wire.messages import k78_share_fetch as k78
from kaa.wire.primitives import Uuid

ID = Uuid(bytes(range(16)))
REQUEST = k78.ShareFetchRequest(group_id="g", member_id="m")
ACQUIRED = k78.AcquiredRecords(first_offset=3, last_offset=5, delivery_count=2)
ANSWER = k78.ShareFetchResponse(
    responses=[
        k78.ShareFetchableTopicResponse(
            topic_id=ID,
            partitions=[
                k78.PartitionData(partition_index=0, records=b""),
                k78.PartitionData(partition_index=1, records=b"", acquired_records=[ACQUIRED]),
            ],
        )
    ]
)


def test_what_is_handed_out_is_noted_when_it_is_answered() -> None:
    deliveries = Deliveries()

    async def answer() -> k78.ShareFetchResponse:
        await asyncio.sleep(0)
        assert deliveries.of_group("g") == []
        return ANSWER

    context: Any = None
    found = deliveries.watching(lambda *_: Pending(answer()))(None, REQUEST, context)
    assert asyncio.run(response_of(found)) is ANSWER
    assert deliveries.of_group("g") == [Handed(ID, 1, 3, 5, "m", 2)]
    assert deliveries.of_group("h") == []
    deliveries.clear()
    assert deliveries.of_group("g") == []


def test_what_is_in_flight_is_what_members_hold() -> None:
    machine = SharePartition(ShareSettings)
    machine.load(2, [StateBatch(2, 4, 1, RecordState.AVAILABLE), StateBatch(5, 6, 1, 2)])
    (free, _) = machine.window
    assert free.whole is not None
    free.whole.acquire("m")
    machine.start_offset = 3
    led = SimpleNamespace(key=SharePartitionKey("g", ID, 7), machine=machine)
    shares = SimpleNamespace(of_group={"g": [led]}.__getitem__)
    broker: Any = SimpleNamespace(services=SimpleNamespace(share_partitions=shares))
    assert held(broker, "g") == [Handed(ID, 7, 3, 4, "m", 2)]
