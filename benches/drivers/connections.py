"""Many connections: what they cost while they are idle, and how they fare when all are in use."""

from __future__ import annotations

import select
import time
from array import array
from typing import TYPE_CHECKING, Any

from benches.brokers import raise_descriptor_limit
from benches.drivers.frames import (
    FrameReader,
    check_produced,
    connect,
    correlate,
    frame,
    produce_frames,
)
from benches.drivers.program import run
from benches.histogram import Latencies
from benches.sampling import resident_bytes
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from collections.abc import Callable


def idle(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    """Opens them one after the other, each with an exchange of versions as clients do it."""
    raise_descriptor_limit()
    hello = frame(
        ApiVersionsRequest(client_software_name="kaa-bench", client_software_version="1"), 3
    )
    begin()
    before = resident_bytes(task["broker_pid"])
    started = time.perf_counter()
    readers = []
    for _ in range(task["connections"]):
        reader = FrameReader(connect(task["bootstrap_servers"]))
        reader.connection.sendall(hello)
        reader.receive_one()
        readers.append(reader)
    seconds = time.perf_counter() - started
    time.sleep(task["hold_seconds"])
    grown = resident_bytes(task["broker_pid"]) - before
    return {
        "connections": len(readers),
        "requests": len(readers),
        "seconds": seconds,
        "connections_per_second": len(readers) / seconds,
        "kb_per_connection": max(0, grown) / len(readers) / 1e3,
    }


def active(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    """Single records at a fixed rate, over all connections in turn."""
    raise_descriptor_limit()
    readers = [FrameReader(connect(task["bootstrap_servers"])) for _ in range(task["connections"])]
    frames = produce_frames(task)
    for number, reader in enumerate(readers):
        reader.connection.sendall(frames[number % len(frames)])
        check_produced(reader.receive_one())
    poll = select.epoll()
    by_descriptor = {reader.connection.fileno(): reader for reader in readers}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    count, interval = round(task["rate"] * task["seconds"]), 1 / task["rate"]
    latencies, sent = array("d"), 0
    begin()
    started = time.perf_counter()
    while len(latencies) < count:
        pause = started + sent * interval - time.perf_counter() if sent < count else 5.0
        ready = poll.poll(max(0.0, pause))
        if not ready and sent == count:
            raise TimeoutError(f"{count - len(latencies)} answers did not come")
        for descriptor, _ in ready:
            answers = by_descriptor[descriptor].receive()
            now = time.perf_counter()
            for answer in answers:
                due = check_produced(answer) * interval
                latencies.append((now - started - due) * 1e6)
        while sent < count and time.perf_counter() >= started + sent * interval:
            data = frames[sent % len(frames)]
            correlate(data, sent)
            readers[sent % len(readers)].connection.sendall(data)
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
    run({"idle": idle, "active": active})
