"""Produce requests one by one: how long a single one takes.

`one_in_flight` sends the next request when the answer to the last one is there. `fixed_rate` sends
by a schedule that does not wait for anybody: a record's time runs from the moment it was due, so
that a broker that stands still for a while is charged for every record that it kept waiting, not
for one. Records that are due in the same `tick_seconds` travel in one batch.
"""

from __future__ import annotations

import select
import time
from array import array
from typing import TYPE_CHECKING, Any

from benches.drivers.frames import (
    FrameReader,
    check_produced,
    connect,
    correlate,
    produce_frames,
)
from benches.drivers.program import run
from benches.histogram import Latencies

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

WARM_UP_REQUESTS = 300


def one_in_flight(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    connection = connect(task["bootstrap_servers"])
    reader = FrameReader(connection)
    frames = produce_frames(task)
    for number in range(WARM_UP_REQUESTS):
        connection.sendall(frames[number % len(frames)])
        check_produced(reader.receive_one())
    latencies = array("d")
    begin()
    started = now = time.perf_counter()
    count = 0
    while now - started < task["seconds"]:
        data = frames[count % len(frames)]
        now = time.perf_counter()
        connection.sendall(data)
        answer = reader.receive_one()
        latencies.append((time.perf_counter() - now) * 1e6)
        check_produced(answer)
        count += 1
    return _result(task, count, count, time.perf_counter() - started, latencies)


class _Schedule:
    """Which batch is due when; each holds the records of one tick."""

    def __init__(self, task: dict[str, Any]) -> None:
        rate, tick = task["rate"], task["tick_seconds"]
        self.records_each = max(1, round(rate * tick))
        self.interval = self.records_each / rate
        self.count = round(task["seconds"] / self.interval)


def fixed_rate(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    schedule = _Schedule(task)
    connection = connect(task["bootstrap_servers"])
    reader = FrameReader(connection)
    frames = produce_frames(task, schedule.records_each)
    for number in range(WARM_UP_REQUESTS):
        connection.sendall(frames[number % len(frames)])
        check_produced(reader.receive_one())
    begin()
    started = time.perf_counter()
    latencies = _drive(connection, reader, frames, schedule, started)
    seconds = time.perf_counter() - started
    return _result(task, schedule.count * schedule.records_each, schedule.count, seconds, latencies)


def _drive(
    connection: socket.socket,
    reader: FrameReader,
    frames: list[bytearray],
    schedule: _Schedule,
    started: float,
) -> array[float]:
    latencies = array("d")
    sent = answered = 0
    while answered < schedule.count:
        due = started + sent * schedule.interval
        pause = due - time.perf_counter() if sent < schedule.count else 5.0
        readable, _, _ = select.select([connection], [], [], max(0.0, pause))
        if readable:
            answers = reader.receive()
            now = time.perf_counter()
            for answer in answers:
                number = check_produced(answer)
                latency = (now - started - number * schedule.interval) * 1e6
                # Every record of the batch was due at the same moment.
                latencies.extend([latency] * schedule.records_each)
            answered += len(answers)
        elif sent == schedule.count:
            raise TimeoutError(f"{schedule.count - answered} answers did not come")
        if sent < schedule.count and time.perf_counter() >= due:
            data = frames[sent % len(frames)]
            correlate(data, sent)
            connection.sendall(data)
            sent += 1
    return latencies


def _result(
    task: dict[str, Any], records: int, requests: int, seconds: float, latencies: array[float]
) -> dict[str, Any]:
    return {
        "records": records,
        "requests": requests,
        "bytes": records * task["record_bytes"],
        "seconds": seconds,
        "requests_per_second": requests / seconds,
        "latencies": Latencies(latencies).to_text(),
    }


if __name__ == "__main__":
    run({"one_in_flight": one_in_flight, "fixed_rate": fixed_rate})
