"""A share group with thousands of partitions that have records: how long others wait for it.

It begins, is loaded, has its records taken and acknowledged, lets locks run out and is given up.
All of these are thousands of short steps, and each of them could be ready at the same time as all
the others.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kaa.records.build import BatchBuilder
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kaa.wire.messages.k78_share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from kaa.wire.primitives import Uuid
from tests.scale.node import Client, ScaleNode
from tests.scale.requests import TIMEOUT_MS, changes
from tests.scale.rounds import RoundProbe
from tests.scale.steps import Scale

TOPIC, GROUP = "work", "workers"
PARTITIONS = 2_000
RECORDS_EACH = 4
POLL_RECORDS = 500
ACCEPT, RELEASE = 1, 2
LOCK_MS, LONG_LOCK_MS = 1_000, 60_000
GROUP_RESOURCE = 32
# What others wait for: a round that runs, the one that they are heard in, and part of a third.
ROUND_MS_MAX = 40.0


class Member:
    """One that asks for all partitions and has its own connection."""

    def __init__(self, scale: Scale, member_id: str) -> None:
        self._client = Client(scale.node.broker.bootstrap_servers)
        self._member_id = member_id
        self._topic_id: Uuid = scale.node.broker.services.image.topics[TOPIC].id
        self._epoch = 0
        # By partition, what the last answers brought.
        self.held: dict[int, tuple[int, int]] = {}

    def fetch(self, kind: int | None = None, *, closes: bool = False) -> int:
        """How many records came; what is held is acknowledged with it."""
        numbers = range(PARTITIONS) if self._epoch == 0 else ()
        partitions = {one: FetchPartition(partition_index=one) for one in numbers}
        if kind is not None:
            for number, (first, last) in self.held.items():
                batch = AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                )
                partitions[number] = FetchPartition(
                    partition_index=number, acknowledgement_batches=[batch]
                )
            self.held.clear()
        topic = FetchTopic(topic_id=self._topic_id, partitions=list(partitions.values()))
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self._member_id,
            share_session_epoch=-1 if closes else self._epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=50 << 20,
            max_records=POLL_RECORDS,
            batch_size=POLL_RECORDS,
            topics=[topic] if partitions else [],
            forgotten_topics_data=[],
        )
        answer: Any = self._client.ask(request)
        assert answer.error_code == Errors.NONE, Errors.of(answer.error_code)
        self._epoch = 0 if closes else self._epoch + 1
        return sum(self._take(one) for topic in answer.responses for one in topic.partitions)

    def _take(self, partition: Any) -> int:
        assert partition.acknowledge_error_code == Errors.NONE
        count = 0
        for one in partition.acquired_records:
            first, _ = self.held.get(partition.partition_index, (one.first_offset, 0))
            self.held[partition.partition_index] = (first, one.last_offset)
            count += one.last_offset - one.first_offset + 1
        return count

    def fetch_until(self, count: int) -> None:
        """Until it holds so many records."""
        while sum(last - first + 1 for first, last in self.held.values()) < count:
            self.fetch()

    def close(self) -> None:
        self.fetch(closes=True)
        self._client.close()

    def vanish(self) -> None:
        self._client.close()


class Rounds:
    """Steps of the node, and the rounds of its loop that were too long in each."""

    def __init__(self, scale: Scale, probe: RoundProbe) -> None:
        self.scale = scale
        self._probe = probe

    def step(self, name: str, work: Callable[[], object]) -> None:
        self._probe.take()
        self.scale.node.probe.take()
        began, used = time.monotonic(), time.process_time()
        work()
        seconds, used = time.monotonic() - began, time.process_time() - used
        # What follows from it happens in the next rounds.
        time.sleep(0.2)  # noqa: TID251  The node runs on another thread.
        rounds, steps = self._probe.take(), self.scale.node.probe.take()
        longest = rounds[0] if rounds else "nothing above the floor"
        sys.stdout.write(f"{name}, {seconds:.2f} s, {used:.2f} of them used: {longest}\n")
        sys.stdout.write(f"    longest step {steps[0] if steps else 'below the floor'}\n")
        # One may have been disturbed.
        long = [str(one) for one in rounds if one.milliseconds > ROUND_MS_MAX]
        assert len(long) < 2, f"{name} kept others waiting:\n" + "\n".join(long[:5])


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rounds]:
    folder: Path = tmp_path_factory.mktemp("share")
    node = ScaleNode(
        folder,
        "broker.session.timeout.ms=120000",
        "offsets.topic.num.partitions=1",
        "group.share.min.record.lock.duration.ms=1000",
    )
    with node.probe.installed(), node:
        scale = Scale(node)
        scale.create([TOPIC], PARTITIONS)
        _configure(scale, "share.auto.offset.reset", "earliest")
        _configure(scale, "share.record.lock.duration.ms", LONG_LOCK_MS)
        _produce(scale)
        scale.wait_for_coordinator(0, GROUP)
        probe = RoundProbe(node.probe.thread_id)
        with probe.installed():
            yield Rounds(scale, probe)


def _configure(scale: Scale, name: str, value: object) -> None:
    change = changes(GROUP_RESOURCE, [GROUP], name, str(value))
    assert scale.node.client.ask(change).responses[0].error_code == Errors.NONE


def _produce(scale: Scale) -> None:
    builder = BatchBuilder()
    for _ in range(RECORDS_EACH):
        builder.append(0, None, b"x")
    records = bytes(builder.build())
    topic_id = scale.node.broker.services.image.topics[TOPIC].id
    partitions = [
        PartitionProduceData(index=number, records=records) for number in range(PARTITIONS)
    ]
    topic = TopicProduceData(topic_id=topic_id, partition_data=partitions)
    answer = scale.node.client.ask(
        ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])
    )
    errors = {one.error_code for one in answer.responses[0].partition_responses}
    assert errors == {Errors.NONE}


def _join(scale: Scale) -> None:
    """Returns when a member has every partition, which takes state of each."""
    epoch = assigned = 0
    while assigned < PARTITIONS:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="AAAAAAAAAAAAAAAAAAAAAA",
            member_epoch=epoch,
            subscribed_topic_names=[TOPIC] if epoch == 0 else None,
        )
        answer = scale.node.client.ask(request)
        assert answer.error_code == Errors.NONE, answer.error_message
        epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            assigned = sum(len(topic.partitions) for topic in topics)
        time.sleep(0.1)  # noqa: TID251  The node runs on another thread.


def test_it_lives_beside_others(rounds: Rounds) -> None:
    scale = rounds.scale
    everything = PARTITIONS * RECORDS_EACH
    rounds.step("state is begun", lambda: _join(scale))
    first, second = Member(scale, "first"), Member(scale, "second")
    rounds.step("share partitions are loaded", lambda: first.fetch_until(1))
    rounds.step("everything is taken", lambda: first.fetch_until(everything))
    rounds.step("everything is given back", lambda: first.fetch(RELEASE))
    rounds.step("everything is taken again", lambda: first.fetch_until(everything))
    rounds.step("the member vanishes", first.vanish)
    rounds.step("another has everything", lambda: second.fetch_until(everything))
    rounds.step("everything is accepted", lambda: second.fetch(ACCEPT))
    _configure(scale, "share.record.lock.duration.ms", LOCK_MS)
    _produce(scale)
    rounds.step("more is taken", lambda: second.fetch_until(everything // 2))
    second.held.clear()
    rounds.step(
        "locks run out",
        lambda: time.sleep(2 * LOCK_MS / 1000),  # noqa: TID251  The node runs on another thread.
    )
    rounds.step("it is taken again", lambda: second.fetch_until(everything // 2))
    rounds.step(
        "the topic is deleted",
        lambda: scale.node.client.ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=TIMEOUT_MS)
        ),
    )
    rounds.step("the member leaves", second.close)
