"""Where the time of one request goes, step by step.

A node runs in this process, on real files, and requests are walked through it by hand: each step is
called as the broker calls it, with a look at the clock between two. The whole way through the
dispatcher is timed beside it, so that a step that is missing shows as a difference. The median of
many requests counts; the clock itself costs about 0.05 us of every step.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import tempfile
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from benches.drivers.frames import frame as request_frame
from benches.drivers.frames import produce_frame
from benches.drivers.program import payloads
from benches.driving import create_topic
from kaa.broker import Broker, running
from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.log.log import FetchIsolation
from kaa.model.kinds import ACKS_ALL
from kaa.records.validate import Validated, validate_produced
from kaa.replication.partition import Partition
from kaa.wire.frames import decode_request, encode_response, read_request_header
from kaa.wire.messages.k00_produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kaa.wire.messages.k01_fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

REQUESTS: Final = 3_000
FETCH_VERSION: Final = 11
FETCH_BYTES: Final = 64 * 1024
TOPIC: Final = "budget"
_SIZE_BYTES: Final = 4


class Steps:
    """Times by step; the clock runs from one `done` to the next."""

    def __init__(self) -> None:
        self.times: dict[str, list[int]] = {}
        self._last = 0

    def start(self) -> None:
        self._last = time.perf_counter_ns()

    def done(self, name: str) -> None:
        now = time.perf_counter_ns()
        self.times.setdefault(name, []).append(now - self._last)
        self._last = time.perf_counter_ns()

    def microseconds(self) -> dict[str, float]:
        return {name: statistics.median(times) / 1e3 for name, times in self.times.items()}


@asynccontextmanager
async def _node() -> AsyncIterator[Broker]:
    with tempfile.TemporaryDirectory(prefix="kaa-budget-") as folder:
        overrides = ["listeners=PLAINTEXT://127.0.0.1:0"]
        settings = development_settings(folder, environment={}, overrides=overrides)
        broker = Broker(load_broker_config(settings).config, formats_empty=True)
        async with running(broker):
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, create_topic, broker.bootstrap_servers, TOPIC, 1)
            yield broker


class _Wire:
    """A pair of connected sockets: what one end sends, the other swallows."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.near = socket.create_connection(listening.getsockname())
            self.far, _ = listening.accept()
        for end in (self.near, self.far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def swallow(self, count: int) -> None:
        while count > 0:
            count -= len(self.far.recv(min(count, 1 << 20)))

    def close(self) -> None:
        self.near.close()
        self.far.close()


def _produce(broker: Broker, wire: _Wire, records: int) -> dict[str, float]:
    services, steps = broker.services, Steps()
    template = produce_frame(TOPIC, 0, payloads(1024, records))
    scratch = memoryview(bytearray(len(template)))
    for _ in range(REQUESTS):
        wire.far.sendall(template)
        while wire.near.recv(len(template), socket.MSG_PEEK) != bytes(template):
            pass
        steps.start()
        wire.near.recv_into(scratch)
        steps.done("receive")
        frame = scratch[_SIZE_BYTES:]
        header = read_request_header(frame)
        steps.done("read the header")
        request = decode_request(frame, header)
        steps.done("decode the request")
        data = request.topic_data[0].partition_data[0]
        partition = services.replicas.find(TOPIC, data.index)
        assert isinstance(partition, Partition)
        rules = services.replicas.rules(partition.topic).append
        partition.append_refusal(ACKS_ALL)
        now_ms = services.clock.wall_ms()
        steps.done("find the partition and its rules")
        verdict = validate_produced(data.records, header.api_version, rules, now_ms)
        assert isinstance(verdict, Validated)
        steps.done("validate the batch")
        info = partition.append(verdict.batch.view, now_ms=now_ms)
        steps.done("append (plan, write, index, high watermark)")
        part = PartitionProduceResponse(index=0, base_offset=info.first_offset)
        topic = TopicProduceResponse(name=TOPIC, partition_responses=[part])
        response = ProduceResponse(responses=[topic])
        steps.done("make the response")
        parts = encode_response(response, header.api_version, header.correlation_id)
        steps.done("encode the response")
        sent = wire.near.sendmsg(parts)
        steps.done("send")
        wire.swallow(sent)
    return steps.microseconds()


def _fetch(broker: Broker, wire: _Wire) -> dict[str, float]:
    services, steps = broker.services, Steps()
    template = _fetch_frame()
    frame = memoryview(template)[_SIZE_BYTES:]
    for _ in range(REQUESTS):
        steps.start()
        header = read_request_header(frame)
        steps.done("read the header")
        request = decode_request(frame, header)
        steps.done("decode the request")
        asked = request.topics[0].partitions[0]
        partition = services.replicas.find(TOPIC, asked.partition)
        assert isinstance(partition, Partition)
        log = partition.online_log()
        steps.done("find the partition")
        result = partition.read(
            asked.fetch_offset, FETCH_BYTES, FetchIsolation.HIGH_WATERMARK, min_one=True
        )
        steps.done("find the region of the file")
        data = PartitionData(
            partition_index=0,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            records=result.region,
        )
        topic = FetchableTopicResponse(topic=TOPIC, partitions=[data])
        response = FetchResponse(responses=[topic])
        steps.done("make the response")
        parts = encode_response(response, header.api_version, header.correlation_id)
        steps.done("encode the response")
        region = next(part for part in parts if hasattr(part, "descriptor"))
        sent = wire.near.send(parts[0])
        sent += os.sendfile(wire.near.fileno(), region.descriptor, region.position, len(region))
        steps.done(f"send the head, and sendfile of {len(region) // 1024} KiB")
        region.release()
        wire.swallow(sent)
    return steps.microseconds()


def _fetch_frame() -> bytearray:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=FETCH_BYTES)
    topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=FETCH_BYTES, topics=topics)
    return request_frame(request, FETCH_VERSION)


def _dispatched(broker: Broker, make: Callable[[], bytearray]) -> float:
    """The whole way from a frame to the parts of its answer."""
    router = broker.listeners.routers[0]
    connection: Any = SimpleNamespace(facts={}, peer="127.0.0.1", listener_name="PLAINTEXT")
    times = []
    for _ in range(REQUESTS):
        frame = memoryview(bytearray(make()))[_SIZE_BYTES:]
        started = time.perf_counter_ns()
        parts = router(connection, frame)
        times.append(time.perf_counter_ns() - started)
        assert isinstance(parts, list)
        for part in parts:
            if hasattr(part, "descriptor"):
                part.release()
    return statistics.median(times) / 1e3


async def _measure() -> dict[str, dict[str, float]]:
    async with _node() as broker:
        wire = _Wire()
        single = produce_frame(TOPIC, 0, payloads(1024, 1))
        fetch = _fetch_frame()
        found = {
            "produce, one record of 1 KiB": _produce(broker, wire, 1),
            "produce, 16 records of 1 KiB": _produce(broker, wire, 16),
            "fetch, one partition": _fetch(broker, wire),
            "through the dispatcher": {
                "produce, one record of 1 KiB": _dispatched(broker, lambda: single),
                "fetch, one partition": _dispatched(broker, lambda: fetch),
            },
        }
        wire.close()
    return found


def measure() -> dict[str, dict[str, float]]:
    """Microseconds, by request and step."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_measure())
    return uvloop.run(_measure())


def markdown(budget: dict[str, dict[str, float]]) -> str:
    lines = ["# The budget of a request", ""]
    for name, steps in budget.items():
        total = sum(steps.values())
        lines += [f"## {name}", "", "| step | us | share |", "|---|---|---|"]
        is_sum = name != "through the dispatcher"
        for step, time_us in steps.items():
            share = f"{time_us / total:.0%}" if is_sum else ""
            lines.append(f"| {step} | {time_us:.2f} | {share} |")
        if is_sum:
            lines.append(f"| together | {total:.2f} | |")
        lines.append("")
    return "\n".join(lines)
