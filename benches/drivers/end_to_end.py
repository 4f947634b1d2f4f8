"""From the moment a record is due at the producer to the moment a consumer has it.

One connection produces single records at a fixed rate, another long-polls the same partition. Each
record is a batch of its own, so that its offset is its number.
"""

from __future__ import annotations

import select
import struct
import time
from array import array
from typing import TYPE_CHECKING, Any, Final

from benches.drivers.frames import (
    FrameReader,
    check_produced,
    connect,
    correlate,
    frame,
    produce_frame,
)
from benches.drivers.program import payloads, run
from benches.histogram import Latencies
from kaa.wire.frames import decode_response
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.registry import ApiKey, api

if TYPE_CHECKING:
    from collections.abc import Callable

FETCH_VERSION: Final = 11
WARM_UP_RECORDS: Final = 300
_BATCH: Final = struct.Struct(">qi")


class _Follower:
    """Reads one partition by long polls."""

    def __init__(self, task: dict[str, Any], offset: int) -> None:
        self.reader = FrameReader(connect(task["bootstrap_servers"]))
        self.topic = task["topic"]
        self.next_offset = offset

    def ask(self) -> None:
        partition = FetchPartition(
            partition=0, fetch_offset=self.next_offset, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_wait_ms=5_000,
            min_bytes=1,
            topics=[FetchTopic(topic=self.topic, partitions=[partition])],
        )
        self.reader.connection.sendall(frame(request, FETCH_VERSION))

    def receive(self) -> None:
        """Takes what came, and asks for more when an answer is whole."""
        for answer in self.reader.receive():
            _, response = decode_response(answer, api(ApiKey.FETCH), FETCH_VERSION)
            for partition in response.responses[0].partitions:
                if partition.error_code:
                    raise AssertionError(f"fetch failed with {partition.error_code}")
                self.next_offset = _end(partition.records, self.next_offset)
            self.ask()


def _end(records: Any, offset: int) -> int:
    """The offset after the last batch."""
    position = 0
    while records is not None and len(records) - position > _BATCH.size:
        base_offset, length = _BATCH.unpack_from(records, position)
        position += _BATCH.size + length
        if position <= len(records):
            offset = base_offset + 1
    return offset


def end_to_end(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    producer = FrameReader(connect(task["bootstrap_servers"]))
    data = produce_frame(task["topic"], 0, payloads(task["record_bytes"], 1))
    for _ in range(WARM_UP_RECORDS):
        producer.connection.sendall(data)
        check_produced(producer.receive_one())
    follower = _Follower(task, task["first_offset"] + WARM_UP_RECORDS)
    follower.ask()
    begin()
    first, count = follower.next_offset, round(task["rate"] * task["seconds"])
    interval = 1 / task["rate"]
    latencies, sent = array("d"), 0
    started = time.perf_counter()
    sockets = [producer.connection, follower.reader.connection]
    while len(latencies) < count:
        due = started + sent * interval
        pause = due - time.perf_counter() if sent < count else 5.0
        readable, _, _ = select.select(sockets, [], [], max(0.0, pause))
        if not readable and sent == count:
            raise TimeoutError(f"{count - len(latencies)} records did not come")
        if follower.reader.connection in readable:
            follower.receive()
            now = time.perf_counter()
            for number in range(len(latencies), follower.next_offset - first):
                latencies.append((now - started - number * interval) * 1e6)
        if producer.connection in readable:
            for answer in producer.receive():
                check_produced(answer)
        if sent < count and time.perf_counter() >= due:
            correlate(data, sent)
            producer.connection.sendall(data)
            sent += 1
    seconds = time.perf_counter() - started
    return {
        "records": count,
        "requests": count,
        "bytes": count * task["record_bytes"],
        "seconds": seconds,
        "latencies": Latencies(latencies).to_text(),
    }


if __name__ == "__main__":
    run({"end_to_end": end_to_end})
