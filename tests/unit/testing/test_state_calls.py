"""Rules about the state of share groups, which a single broker keeps without a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kaa.client.sync import ShareConsumer
from kaa.testing import Broker, Errors
from kaa.wire.messages import k85_write_share_group_state as k85
from tests.support.pace import PATIENCE_SECONDS


@pytest.fixture(params=["thread", "process"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(process=request.param == "process") as running:
        yield running


def refusal(request: k85.WriteShareGroupStateRequest) -> k85.WriteShareGroupStateResponse | None:
    topic = request.topics[0]
    if topic.partitions[0].state_batches[0].first_offset > 0:
        return None
    row = k85.PartitionResult(
        partition=topic.partitions[0].partition, error_code=Errors.UNKNOWN_SERVER_ERROR
    )
    results = [k85.WriteStateResult(topic_id=topic.topic_id, partitions=[row])]
    return k85.WriteShareGroupStateResponse(results=results)


def test_state_that_cannot_be_read_or_written(broker: Broker) -> None:
    topic = broker.topic("jobs")
    topic.seed(["a"])
    group = broker.share_group("workers", share_auto_offset_reset="earliest")
    reads = broker.on("ReadShareGroupState", topic=topic).fail("UNKNOWN_SERVER_ERROR", times=1)
    lost = broker.on("ReadShareGroupState").drop(times=1)
    begun = broker.on("InitializeShareGroupState", group=group).delay(0.01)
    seen = broker.on("WriteShareGroupState", topic=topic).observe()
    with ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group.id,
            "share.acknowledgement.mode": "explicit",
        }
    ) as consumer:
        consumer.subscribe([topic.name])

        def accepted() -> list[Any]:
            for record in consumer.poll(int(PATIENCE_SECONDS * 1000)):
                consumer.acknowledge(record)
            return list(consumer.commit().values())

        with broker.on("WriteShareGroupState").fail("FENCED_STATE_EPOCH", times=1):
            (error,) = accepted()
            assert error.error is Errors.NOT_LEADER_OR_FOLLOWER
        assert group.acknowledged() == []
        answers = broker.on("WriteShareGroupState").answer(refusal, times=1)
        (error,) = accepted()
        assert error.error is Errors.UNKNOWN_SERVER_ERROR
        # What could not be written is available again when its lock runs out.
        broker.clock.advance(minutes=1)
        # The state is written, and the answer of the coordinator is lost.
        broker.on("WriteShareGroupState").drop(times=1, after=True)
        assert accepted() == [None]
    group.expect(["a"])
    assert (reads.count, lost.count, begun.count, answers.count) == (1, 1, 1, 1)
    assert seen.count == len(seen.requests) > 3
    assert {request.group_id for request in seen.requests} == {group.id}
