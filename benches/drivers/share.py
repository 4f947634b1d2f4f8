"""Members of share groups that hold what they got, and a client that waits beside them.

`dies` holds one record until it is killed. `holds` takes as many records as a member may hold of
every partition, never a whole batch, so that the broker keeps a state for each of them. `takes` is
many members at once that accept what they get as fast as they get it, as Kafka's client asks for
it; what they got is counted and not looked at. `waits` asks the broker for next to nothing again
and again, until it gets a line: the longest answer is how long others waited for whatever the
broker did meanwhile.
"""

from __future__ import annotations

import os
import select
import selectors
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from benches.drivers.frames import FrameReader, ask, connect, frame
from benches.drivers.program import run
from kaa.client.sync import ShareConsumer
from kaa.wire.errors import Errors
from kaa.wire.frames import decode_response
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kaa.wire.messages.k78_share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from kaa.wire.primitives import random_uuid
from kaa.wire.registry import ApiKey, api

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.wire.messages.k76_share_group_heartbeat import Assignment
    from kaa.wire.primitives import Uuid

FIND_VERSION: Final = 4
HEARTBEAT_VERSION: Final = 1
FETCH_VERSION: Final = 2
RECORD_LIMIT_MODE: Final = 1
# The defaults of Kafka's client.
POLL_RECORDS: Final = 500
FETCH_WAIT_MS: Final = 500
FETCH_BYTES_MAX: Final = 50 << 20
ACCEPT: Final = 1
PROGRESS_SECONDS_MAX: Final = 60.0
HEARTBEAT_SECONDS: Final = 0.2
# Fetches for each partition, of which some find it not loaded yet.
EPOCHS_MAX: Final = 20
PAUSE_SECONDS: Final = 0.002


def dies(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": task["bootstrap_servers"],
        "group.id": task["group"],
        "share.acknowledgement.mode": "explicit",
    }
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([task["topic"]])
        while not consumer.poll(1000):
            pass
        begin()
    return {}


def holds(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    reader = FrameReader(connect(task["bootstrap_servers"]))
    member_id = str(random_uuid(os.urandom))
    assigned = _join(reader, task, member_id)
    held, epoch, wanted = 0, 0, task["partitions"] * task["records"]
    while held < wanted:
        held += _take(reader, task, member_id, epoch, assigned if epoch == 0 else None)
        epoch += 1
        assert epoch <= EPOCHS_MAX * task["partitions"], f"{held} of {wanted} after {epoch} fetches"
    begin()
    return {"held": held}


def _join(reader: FrameReader, task: dict[str, Any], member_id: str) -> Assignment:
    """Returns when the member has every partition."""
    epoch = 0
    while True:
        # Also has the topic of the coordinator made.
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[task["group"]])
        ask(reader, find, FIND_VERSION)
        request = ShareGroupHeartbeatRequest(
            group_id=task["group"],
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=[task["topic"]] if epoch == 0 else None,
        )
        answer = ask(reader, request, HEARTBEAT_VERSION)
        if not Errors.of(answer.error_code).retriable:
            _check(answer.error_code)
            epoch = answer.member_epoch
            assigned: Assignment | None = answer.assignment
            topics = assigned.topic_partitions if assigned is not None else ()
            if assigned and sum(len(one.partitions) for one in topics) == task["partitions"]:
                return assigned
        time.sleep(HEARTBEAT_SECONDS)


def _take(
    reader: FrameReader,
    task: dict[str, Any],
    member_id: str,
    epoch: int,
    added: Assignment | None,
) -> int:
    """How many records a fetch has brought; never all of a batch."""
    request = ShareFetchRequest(
        group_id=task["group"],
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=1_000,
        min_bytes=1,
        max_records=task["records"] - 1,
        batch_size=task["records"],
        share_acquire_mode=RECORD_LIMIT_MODE,
        topics=[
            FetchTopic(
                topic_id=one.topic_id,
                partitions=[FetchPartition(partition_index=number) for number in one.partitions],
            )
            for one in (added.topic_partitions if added is not None else ())
        ],
        forgotten_topics_data=[],
    )
    answer = ask(reader, request, FETCH_VERSION)
    _check(answer.error_code)
    return sum(
        one.last_offset - one.first_offset + 1
        for topic in answer.responses
        for partition in topic.partitions
        for one in partition.acquired_records
    )


def _check(error_code: int) -> None:
    assert error_code == Errors.NONE, Errors.of(error_code).name


class _Member:
    """One of many members: accepts what the last answer brought with the fetch that follows it."""

    def __init__(self, task: dict[str, Any], assigned: Assignment) -> None:
        self.reader = FrameReader(connect(task["bootstrap_servers"]))
        self._group = task["group"]
        self._member_id = str(random_uuid(os.urandom))
        self._epoch = 0
        # By topic and partition, what to accept; at first nothing of every partition.
        self._taken: dict[tuple[Uuid, int], list[AcknowledgementBatch]] = {
            (topic.topic_id, number): []
            for topic in assigned.topic_partitions
            for number in topic.partitions
        }

    def ask(self) -> None:
        topics: dict[Uuid, FetchTopic] = {}
        for (topic_id, number), batches in self._taken.items():
            topic = topics.setdefault(topic_id, FetchTopic(topic_id=topic_id, partitions=[]))
            topic.partitions.append(
                FetchPartition(partition_index=number, acknowledgement_batches=batches)
            )
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            max_records=POLL_RECORDS,
            batch_size=POLL_RECORDS,
            topics=list(topics.values()),
            forgotten_topics_data=[],
        )
        self._taken = {}
        self._epoch += 1
        self.reader.connection.sendall(frame(request, FETCH_VERSION))

    def take(self, data: bytes) -> int:
        """How many records an answer has."""
        _, answer = decode_response(data, api(ApiKey.SHARE_FETCH), FETCH_VERSION)
        _check(answer.error_code)
        count = 0
        for topic in answer.responses:
            for partition in topic.partitions:
                _check(partition.acknowledge_error_code)
                if not Errors.of(partition.error_code).retriable:
                    _check(partition.error_code)
                batches = [
                    AcknowledgementBatch(
                        first_offset=one.first_offset,
                        last_offset=one.last_offset,
                        acknowledge_types=[ACCEPT],
                    )
                    for one in partition.acquired_records
                ]
                if batches:
                    self._taken[topic.topic_id, partition.partition_index] = batches
                count += sum(one.last_offset - one.first_offset + 1 for one in batches)
        return count


def takes(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    joined = FrameReader(connect(task["bootstrap_servers"]))
    assigned = _join(joined, task, str(random_uuid(os.urandom)))
    members = [_Member(task, assigned) for _ in range(task["members"])]
    selector = selectors.DefaultSelector()
    for member in members:
        selector.register(member.reader.connection, selectors.EVENT_READ, member)
    begin()
    taken, requests, wanted = 0, len(members), task["records"]
    began = progress = time.perf_counter()
    for member in members:
        member.ask()
    while taken < wanted:
        for key, _ in selector.select(1):
            for data in key.data.reader.receive():
                count = key.data.take(data)
                if count:
                    taken, progress = taken + count, time.perf_counter()
                key.data.ask()
                requests += 1
        late = time.perf_counter() - progress
        assert late < PROGRESS_SECONDS_MAX, f"{taken} of {wanted} records after {requests} requests"
    return {"seconds": progress - began, "requests": requests}


def waits(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    hello = frame(
        ApiVersionsRequest(client_software_name="kaa-bench", client_software_version="1"), 3
    )
    reader = FrameReader(connect(task["bootstrap_servers"]))
    begin()
    longest, count = 0.0, 0
    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        began = time.perf_counter()
        reader.connection.sendall(hello)
        reader.receive_one()
        longest = max(longest, time.perf_counter() - began)
        count += 1
    return {"longest_ms": longest * 1e3, "requests": count}


if __name__ == "__main__":
    run({"dies": dies, "holds": holds, "takes": takes, "waits": waits})
