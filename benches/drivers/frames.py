"""Requests that are encoded once, and connections that send them without a library between."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Final

from benches.drivers.program import payloads
from kaa.records.build import BatchBuilder
from kaa.wire.errors import Errors
from kaa.wire.frames import decode_response, encode_request
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kaa.wire.registry import ApiKey, api

if TYPE_CHECKING:
    from kaa.wire.schema import Request

PRODUCE_VERSION: Final = 9
_CORRELATION_POSITION: Final = 8
_INT32: Final = struct.Struct(">i")
SECONDS_MAX: Final = 30.0


def frame(request: Request, version: int) -> bytearray:
    """With its size in front; `correlate` makes it another request."""
    return bytearray(b"".join(map(bytes, encode_request(request, version, 0, "bench"))))


def correlate(data: bytearray, correlation_id: int) -> None:
    _INT32.pack_into(data, _CORRELATION_POSITION, correlation_id)


def produce_frame(topic: str, partition: int, values: list[bytes], *, acks: int = -1) -> bytearray:
    builder = BatchBuilder()
    now_ms = time.time_ns() // 1_000_000
    for value in values:
        builder.append(timestamp=now_ms, key=None, value=value)
    data = PartitionProduceData(index=partition, records=bytes(builder.build()))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return frame(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics), PRODUCE_VERSION)


def produce_frames(task: dict[str, Any], records_each: int = 1) -> list[bytearray]:
    """One for each partition."""
    values = payloads(task["record_bytes"], records_each)
    return [
        produce_frame(task["topic"], number, values, acks=task.get("acks", -1))
        for number in range(task["partitions"])
    ]


def check_produced(answer: bytes | bytearray) -> int:
    """The correlation id of an answer in which nothing was refused."""
    correlation_id, response = decode_response(answer, api(ApiKey.PRODUCE), PRODUCE_VERSION)
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise AssertionError(f"refused: {Errors.of(partition.error_code).name}")
    return correlation_id


def connect(bootstrap_servers: str) -> socket.socket:
    host, _, port = bootstrap_servers.rpartition(":")
    connection = socket.create_connection((host, int(port)), SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class FrameReader:
    """Cuts what a socket gives into frames."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._data = bytearray()

    def receive(self) -> list[bytes]:
        """The frames that are whole after one read, without their sizes."""
        piece = self.connection.recv(1 << 20)
        if not piece:
            raise EOFError("the broker closed the connection")
        data = self._data
        data += piece
        found, position = list[bytes](), 0
        while len(data) - position >= _INT32.size:
            end = position + _INT32.size + _INT32.unpack_from(data, position)[0]
            if end > len(data):
                break
            found.append(bytes(data[position + _INT32.size : end]))
            position = end
        del data[:position]
        return found

    def receive_one(self) -> bytes:
        while not (found := self.receive()):
            pass
        return found[0]


def ask(reader: FrameReader, request: Request, version: int) -> Any:
    """One request and its answer."""
    reader.connection.sendall(frame(request, version))
    return decode_response(reader.receive_one(), api(request.api_key), version)[1]
