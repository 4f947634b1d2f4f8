"""The state of a share group in every partition of the node: made, read, written, moved and taken
away, by brokers and by operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kaa.wire.errors import Errors
from kaa.wire.messages import k83_initialize_share_group_state as k83
from kaa.wire.messages import k84_read_share_group_state as k84
from kaa.wire.messages import k85_write_share_group_state as k85
from kaa.wire.messages import k86_delete_share_group_state as k86
from kaa.wire.messages import k87_read_share_group_state_summary as k87
from kaa.wire.messages import k91_alter_share_group_offsets as k91
from kaa.wire.messages import k92_delete_share_group_offsets as k92
from kaa.wire.messages.k79_share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kaa.wire.primitives import Uuid
from kaa.wire.schema import Request
from tests.scale.requests import NAMES, NUMBERS, PARTITIONS, SHARE_GROUP, TOPICS, share_fetch
from tests.scale.steps import Scale

GROUP = "of-brokers"
MOVED = "of-operators"
WIDE = "of-single-records"
BATCHES = 20_000


def requests_of_brokers(topic_ids: list[Uuid]) -> Mapping[str, Request[Any]]:
    """In the order in which the state of a partition has them."""
    made = [
        k83.PartitionData(partition=number, state_epoch=0, start_offset=0) for number in NUMBERS
    ]
    read = [k84.PartitionData(partition=number, leader_epoch=0) for number in NUMBERS]
    batch = k85.StateBatch(first_offset=0, last_offset=9, delivery_state=2, delivery_count=1)
    written = [
        k85.PartitionData(
            partition=number,
            state_epoch=0,
            leader_epoch=0,
            start_offset=0,
            delivery_complete_count=10,
            state_batches=[batch],
        )
        for number in NUMBERS
    ]
    summed = [k87.PartitionData(partition=number, leader_epoch=0) for number in NUMBERS]
    gone = [k86.PartitionData(partition=number) for number in NUMBERS]
    return {
        "InitializeShareGroupState": k83.InitializeShareGroupStateRequest(
            group_id=GROUP,
            topics=[k83.InitializeStateData(topic_id=one, partitions=made) for one in topic_ids],
        ),
        "ReadShareGroupState": k84.ReadShareGroupStateRequest(
            group_id=GROUP,
            topics=[k84.ReadStateData(topic_id=one, partitions=read) for one in topic_ids],
        ),
        "WriteShareGroupState": k85.WriteShareGroupStateRequest(
            group_id=GROUP,
            topics=[k85.WriteStateData(topic_id=one, partitions=written) for one in topic_ids],
        ),
        "ReadShareGroupStateSummary": k87.ReadShareGroupStateSummaryRequest(
            group_id=GROUP,
            topics=[k87.ReadStateSummaryData(topic_id=one, partitions=summed) for one in topic_ids],
        ),
        "DeleteShareGroupState": k86.DeleteShareGroupStateRequest(
            group_id=GROUP,
            topics=[k86.DeleteStateData(topic_id=one, partitions=gone) for one in topic_ids],
        ),
    }


def topic_ids(scale: Scale) -> list[Uuid]:
    topics = scale.node.broker.services.image.topics
    return [topics[name].id for name in NAMES]


def test_states_that_brokers_ask_for(scale: Scale) -> None:
    scale.wait_for_coordinator(2, f"{GROUP}:AAAAAAAAAAAAAAAAAAAAAA:0")
    requests = requests_of_brokers(topic_ids(scale))

    def is_done(request: Request[Any]) -> bool:
        answer = scale.node.client.ask(request)
        assert len(answer.results) == TOPICS
        errors = {one.error_code for topic in answer.results for one in topic.partitions}
        return errors == {Errors.NONE}

    for name, request in requests.items():
        # Shards of the coordinator may still be loading.
        scale.wait_until(partial(is_done, request))
        scale.ask(name, request)


def test_a_state_with_very_many_batches(scale: Scale) -> None:
    """One for each record, as members may acknowledge them; each write is told all of them."""
    scale.wait_for_coordinator(2, f"{GROUP}:AAAAAAAAAAAAAAAAAAAAAA:0")
    topic_id = topic_ids(scale)[0]
    batches = [
        k85.StateBatch(
            first_offset=2 * number, last_offset=2 * number, delivery_state=2, delivery_count=1
        )
        for number in range(BATCHES)
    ]
    made = k83.PartitionData(partition=0, state_epoch=0, start_offset=0)
    written = k85.PartitionData(
        partition=0, state_epoch=0, leader_epoch=0, start_offset=0, state_batches=batches
    )
    begin = k83.InitializeShareGroupStateRequest(
        group_id=WIDE, topics=[k83.InitializeStateData(topic_id=topic_id, partitions=[made])]
    )
    write = k85.WriteShareGroupStateRequest(
        group_id=WIDE, topics=[k85.WriteStateData(topic_id=topic_id, partitions=[written])]
    )
    read = k84.ReadShareGroupStateRequest(
        group_id=WIDE,
        topics=[
            k84.ReadStateData(
                topic_id=topic_id, partitions=[k84.PartitionData(partition=0, leader_epoch=0)]
            )
        ],
    )

    def is_done(request: Request[Any]) -> bool:
        (topic,) = scale.node.client.ask(request).results
        (partition,) = topic.partitions
        return bool(partition.error_code == Errors.NONE)

    # The shard of the coordinator may still be loading.
    scale.wait_until(partial(is_done, begin))
    assert is_done(write)
    scale.ask("WriteShareGroupState of one partition", write)
    (topic,) = scale.node.client.ask(read).results
    assert len(topic.partitions[0].state_batches) == BATCHES
    scale.ask("ReadShareGroupState of one partition", read)


def test_offsets_that_operators_move(scale: Scale) -> None:
    ask = scale.node.client.ask
    scale.wait_for_coordinator(0, MOVED)
    partitions = [
        k91.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=0)
        for number in NUMBERS
    ]
    alter = k91.AlterShareGroupOffsetsRequest(
        group_id=MOVED,
        topics=[
            k91.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
            for name in NAMES
        ],
    )
    delete = k92.DeleteShareGroupOffsetsRequest(
        group_id=MOVED,
        topics=[k92.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in NAMES],
    )

    def move() -> None:
        moved = ask(alter)
        assert moved.error_code == Errors.NONE
        errors = [one.error_code for topic in moved.responses for one in topic.partitions]
        assert errors == [Errors.NONE] * (TOPICS * PARTITIONS)
        deleted = ask(delete)
        assert deleted.error_code == Errors.NONE
        assert {one.error_code for one in deleted.responses} == {Errors.NONE}

    scale.undisturbed("AlterShareGroupOffsets and DeleteShareGroupOffsets", move)


def test_acknowledgements_of_everything(scale: Scale) -> None:
    """Of records that nobody has acquired: each partition is looked at and refused."""
    ask = scale.node.client.ask
    scale.wait_for_coordinator(0, SHARE_GROUP)
    batch = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    partitions = [
        AcknowledgePartition(partition_index=number, acknowledgement_batches=[batch])
        for number in NUMBERS
    ]
    topics = [AcknowledgeTopic(topic_id=one, partitions=partitions) for one in topic_ids(scale)]
    image = scale.node.broker.services.image

    def acknowledge() -> None:
        for epoch in (0, 1):
            assert ask(share_fetch(image, NAMES, NUMBERS, epoch)).error_code == Errors.NONE
        request = ShareAcknowledgeRequest(
            group_id=SHARE_GROUP,
            member_id="AAAAAAAAAAAAAAAAAAAAAA",
            share_session_epoch=2,
            topics=topics,
        )
        answer = ask(request)
        assert answer.error_code == Errors.NONE
        assert len(answer.responses) == TOPICS
        assert ask(share_fetch(image, NAMES, NUMBERS, -1)).error_code == Errors.NONE

    scale.undisturbed("ShareAcknowledge", acknowledge)
