"""The codec beside kio and kafka-python, on the same bytes; and what importing it costs."""

from __future__ import annotations

import importlib
import io
import os
import re
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from kio.serial import entity_reader, entity_writer

from benches.figure import Figure, best_microseconds, median_milliseconds
from kaa.wire import Uuid
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.messages.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kaa.wire.messages.k18_api_versions import ApiVersion, ApiVersionsResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.wire.schema import Message

# The default batch size of Kafka's producer.
_BATCH_BYTES = 16_384


def run() -> list[Figure]:
    figures = []
    for name, message, version in _cases():
        figures += _codec_figures(name, message, version)
    return figures + _import_figures()


def _cases() -> Iterator[tuple[str, Message, int]]:
    keys = [ApiVersion(api_key=key, min_version=0, max_version=12) for key in range(70)]
    yield "ApiVersions response", ApiVersionsResponse(api_keys=keys), 3
    yield "Metadata response, 1,000 partitions", _metadata(), 12
    topics = [
        FetchTopic(
            topic=f"topic-{topic}",
            partitions=[
                FetchPartition(partition=p, fetch_offset=123_456_789, partition_max_bytes=1 << 20)
                for p in range(10)
            ],
        )
        for topic in range(10)
    ]
    fetch = FetchRequest(max_wait_ms=500, min_bytes=1, session_id=7, session_epoch=3, topics=topics)
    yield "Fetch request, 100 partitions", fetch, 12
    data = [
        TopicProduceData(
            name=f"topic-{topic}",
            partition_data=[
                PartitionProduceData(index=p, records=bytes(_BATCH_BYTES)) for p in range(5)
            ],
        )
        for topic in range(2)
    ]
    yield "Produce request, 10 partitions", ProduceRequest(acks=-1, topic_data=data), 9
    protocols = [
        JoinGroupRequestProtocol(name=name, metadata=bytes(100))
        for name in ("range", "cooperative-sticky")
    ]
    join = JoinGroupRequest(
        group_id="my-group",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="member-" + "0" * 36,
        protocol_type="consumer",
        protocols=protocols,
    )
    yield "JoinGroup request", join, 9


def _metadata() -> MetadataResponse:
    nodes = [1, 2, 3]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092) for node in nodes
        ],
        cluster_id="x" * 22,
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name=f"topic-{topic}",
                topic_id=Uuid(bytes([topic + 1]) * 16),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=p,
                        leader_id=1,
                        leader_epoch=5,
                        replica_nodes=nodes,
                        isr_nodes=nodes,
                    )
                    for p in range(50)
                ],
            )
            for topic in range(20)
        ],
    )


def _codec_figures(name: str, message: Message, version: int) -> list[Figure]:
    data = message.encode(version)
    codec = message.codec(version)
    read, write, entity = _kio(message, version, data)
    peer_class, peer = _kafka_python(message, version, data)
    decode = best_microseconds(
        {
            "kaa": lambda: codec.decode(data),
            "kio": lambda: read(data, 0),
            "kafka-python": lambda: peer_class.decode(data, version=version),
        }
    )
    encode = best_microseconds(
        {
            "kaa": lambda: codec.encode(message),
            "kio": lambda: write(io.BytesIO(), entity),
            "kafka-python": lambda: peer.encode(version=version),
        }
    )
    return [_figure(f"decode {name}", decode), _figure(f"encode {name}", encode)]


def _figure(name: str, times: dict[str, float]) -> Figure:
    ours = times.pop("kaa")
    return Figure(name, ours, "us", peers=times, higher_is_better=False)


def _kio(message: Message, version: int, data: bytes) -> tuple[Any, Any, Any]:
    name = type(message).__name__
    api, kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().rsplit("_", 1)
    entity_class = getattr(importlib.import_module(f"kio.schema.{api}.v{version}.{kind}"), name)
    read, write = entity_reader(entity_class), entity_writer(entity_class)
    entity, _ = read(data, 0)
    out = io.BytesIO()
    write(out, entity)
    assert out.getvalue() == data
    return read, write, entity


def _kafka_python(message: Message, version: int, data: bytes) -> tuple[Any, Any]:
    name = type(message).__name__
    for package in ("metadata", "consumer", "producer"):
        peer_class = getattr(importlib.import_module(f"kafka.protocol.{package}"), name, None)
        if peer_class is not None:
            break
    else:
        raise LookupError(f"kafka-python has no {name}")
    peer = peer_class.decode(data, version=version)
    # A decoded message lacks what its constructor would have set for encoding.
    peer._header = peer._version = None  # noqa: SLF001
    assert peer.encode(version=version) == data
    return peer_class, peer


def _import_figures() -> list[Figure]:
    # Measured as installed packages run: with their bytecode cached, which the first run sees to.
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def python(code: str) -> str:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, check=True, capture_output=True, env=environment, text=True)
        return done.stdout

    first_use = (
        "import time, kaa.wire; started = time.process_time();"
        "from kaa.wire.messages.k01_fetch import FetchResponse as M;"
        "M.decode(M().encode(12), 12); print((time.process_time() - started) * 1e3)"
    )
    python(first_use)
    bare = median_milliseconds(lambda: python("pass"))
    imported = median_milliseconds(lambda: python("import kaa.wire"))
    first = statistics.median(float(python(first_use)) for _ in range(9))
    over_bare = "import kaa.wire over a bare interpreter"
    whole = "first use of FetchResponse (processor time)"
    return [
        Figure(over_bare, imported - bare, "ms", target=60, higher_is_better=False),
        Figure(whole, first, "ms", target=5, higher_is_better=False),
    ]
