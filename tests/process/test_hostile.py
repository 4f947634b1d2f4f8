"""Hostile input and overload: it costs its sender, in bounded memory, and nobody else notices."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from kaa.records.batch import TRANSACTIONAL_FLAG, CompressionType
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kaa.wire.messages.k03_metadata import MetadataRequest
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from tests.clients.librdkafka import create_topic
from tests.oracle.environment import wait_until
from tests.process.healthy import (
    PRODUCE_VERSION,
    HealthyClient,
    fetch_request,
    prepare,
    produce_request,
)
from tests.support.broker_process import BrokerProcess
from tests.support.raw import RawClient, request_frame, sized
from tests.unit.log.batches import batch, marker
from tests.unit.records.samples import NOW_MS, NewRecord, build, with_crc

MEBIBYTE = 1 << 20
API_VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


@pytest.fixture(scope="module")
def module_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # With a short queue a storm of connections meets the kernel's retries of a second each.
    setting = "socket.listen.backlog.size=1000"
    with BrokerProcess(tmp_path_factory.mktemp("hostile"), setting) as broker:
        prepare(broker)
        create_topic(broker.bootstrap_servers, "t", partitions=2)
        create_topic(broker.bootstrap_servers, "bombs")
        yield broker


@pytest.fixture
def address(module_broker: BrokerProcess) -> Iterator[str]:
    """The node's address; a healthy client works there meanwhile."""
    with HealthyClient(module_broker):
        yield module_broker.bootstrap_servers


def closes(address: str, data: bytes) -> bool:
    with RawClient(address) as client:
        client.send(data)
        return client.is_closed_by_peer()


def header(key: int, version: int, *, tags: bytes = b"") -> bytes:
    """The header of a request, without a client id."""
    return struct.pack(">hhih", key, version, 7, -1) + tags


# --- frames


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 2**31 - 1, 100 * MEBIBYTE + 1])
def test_sizes_of_frames(address: str, size: int) -> None:
    assert closes(address, struct.pack(">i", size))


def test_frames_that_never_come(address: str, module_broker: BrokerProcess) -> None:
    """Memory follows what was received, not what was announced."""
    before = module_broker.resident_bytes
    with ExitStack() as opened:
        clients = [opened.enter_context(RawClient(address)) for _ in range(200)]
        for client in clients:
            client.send(struct.pack(">i", 100 * MEBIBYTE) + b"\x00\x00")
        with RawClient(address) as other:
            assert other.ask(API_VERSIONS, 4).error_code == Errors.NONE
        assert module_broker.resident_bytes - before < 8 * MEBIBYTE


def test_a_request_in_single_bytes(address: str) -> None:
    with RawClient(address) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request_frame(API_VERSIONS, 3):
            client.send(bytes([byte]))
        assert client.receive_frame()


def test_garbage(address: str) -> None:
    random = Random(6)
    for _ in range(50):
        with RawClient(address) as client:
            client.send(sized(random.randbytes(random.randrange(1, 2_000))))
            assert client.is_closed_by_peer()
    assert closes(address, b"GET / HTTP/1.1\r\nHost: node\r\n\r\n")


# --- requests


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00", id="one byte"),
        pytest.param(struct.pack(">hhi", 3, 1, 7), id="header cut short"),
        pytest.param(struct.pack(">hhih", 3, 1, 7, -2), id="client id of negative length"),
        pytest.param(struct.pack(">hhih", 3, 1, 7, 99) + b"x", id="client id past the end"),
        pytest.param(struct.pack(">hhih", 3, 1, 7, 1) + b"\xff", id="client id not UTF-8"),
        pytest.param(header(3, 1) + struct.pack(">i", 2**31 - 1), id="count of 2**31-1"),
        pytest.param(header(3, 1) + struct.pack(">i", -2), id="negative count"),
        pytest.param(header(3, 1) + struct.pack(">ih", 1, -1), id="null name"),
        pytest.param(header(3, 1) + struct.pack(">ih", 1, -5), id="negative length of a name"),
        pytest.param(header(3, 1) + struct.pack(">ih", 1, 9) + b"abc", id="name past the end"),
        pytest.param(header(3, 1) + struct.pack(">ih", 1, 2) + b"\xc3\x28", id="name not UTF-8"),
        pytest.param(header(3, 12, tags=b"\xff" * 6), id="varint of six bytes"),
        pytest.param(header(3, 12, tags=b"\xff\xff\xff\xff\x0f"), id="tags of 2**32-1"),
        pytest.param(
            header(3, 12, tags=b"\x00") + b"\xff\xff\xff\xff\x0f", id="compact count of 2**32-2"
        ),
        pytest.param(header(18, 3, tags=b"\x00") + b"\x02r\x021\xff\xff\xff\xff\x07", id="tags"),
    ],
)
def test_malformed_requests(address: str, body: bytes) -> None:
    assert closes(address, sized(body))


@pytest.mark.parametrize("count", [100, 3_000_000])
def test_many_tagged_fields_of_no_size(address: str, count: int) -> None:
    """Tags of two bytes each would become objects many times their size."""
    tags = b"".join(b"%c\x00" % (number % 128) for number in range(count))
    body = header(18, 3, tags=unsigned_varint(count) + tags) + b"\x02r\x021\x00"
    assert closes(address, sized(body))


def unsigned_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def test_arrays_that_expand(address: str) -> None:
    """Two million names of one byte each: small on the wire, large as objects."""
    count = 2_000_000
    body = header(3, 1) + struct.pack(">i", count) + b"\x00\x01t" * count
    assert closes(address, sized(body))


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (3, 99), (0, 2), (1, -1), (52, 0)])
def test_unknown_keys_and_versions(address: str, key: int, version: int) -> None:
    assert closes(address, sized(header(key, version)))


@pytest.mark.parametrize("version", [5, 99, 32_767])
def test_unknown_version_of_api_versions(address: str, version: int) -> None:
    with RawClient(address) as client:
        client.send(sized(header(18, version, tags=b"\x00")))
        answer = client.receive_frame()
        correlation_id, error, count = struct.unpack_from(">ihi", answer)
        assert (correlation_id, error, count) == (7, Errors.UNSUPPORTED_VERSION, 1)
        assert struct.unpack_from(">hhh", answer, 10) == (18, 0, 4)
        # The connection goes on, in a version that both know.
        assert client.ask(API_VERSIONS, 4).error_code == Errors.NONE


# --- records


def produced(address: str, records: bytes | bytearray) -> tuple[Errors, Errors]:
    """The errors of a bad batch and of a good one beside it, in one request."""
    with RawClient(address) as client:
        response = client.ask(produce_request("t", records, batch(2)), PRODUCE_VERSION)
    (topic,) = response.responses
    bad, good = topic.partition_responses
    return Errors.of(bad.error_code), Errors.of(good.error_code)


def changed(position: int, value: bytes, *, crc: bool = True) -> bytearray:
    content = batch(3)
    content[position : position + len(value)] = value
    return with_crc(content) if crc else content


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (changed(70, b"\x55", crc=False), Errors.CORRUPT_MESSAGE),
        (changed(16, b"\x00", crc=False), Errors.INVALID_RECORD),
        (changed(16, b"\x01", crc=False), Errors.INVALID_RECORD),
        (changed(16, b"\x03", crc=False), Errors.CORRUPT_MESSAGE),
        (changed(8, struct.pack(">i", -1), crc=False), Errors.CORRUPT_MESSAGE),
        (changed(8, struct.pack(">i", 2**31 - 1), crc=False), Errors.UNKNOWN_SERVER_ERROR),
        (changed(8, struct.pack(">i", 10_000), crc=False), Errors.INVALID_RECORD),
        (changed(23, struct.pack(">i", 7)), Errors.INVALID_RECORD),
        (changed(57, struct.pack(">i", 2**31 - 1)), Errors.INVALID_RECORD),
        (changed(57, struct.pack(">i", -1)), Errors.INVALID_RECORD),
        (changed(57, struct.pack(">i", 0)), Errors.INVALID_RECORD),
        (changed(61, b"\xff\xff\xff\xff\xff\xff"), Errors.UNKNOWN_SERVER_ERROR),
        (changed(61, b"\x01"), Errors.INVALID_RECORD),
        (changed(22, b"\x07"), Errors.UNKNOWN_SERVER_ERROR),
        (changed(22, b"\x01"), Errors.UNKNOWN_SERVER_ERROR),
        (batch(1, control=True), Errors.INVALID_RECORD),
        (batch(2, producer_id=5, producer_epoch=0, sequence=-1), Errors.INVALID_RECORD),
        (bytearray(), Errors.INVALID_RECORD),
        (bytearray(60), Errors.CORRUPT_MESSAGE),
    ],
)
def test_malformed_batches(address: str, records: bytearray, error: Errors) -> None:
    assert produced(address, records) == (error, Errors.NONE)


def test_records_of_a_transaction_that_has_no_name(address: str) -> None:
    """As in Kafka, who may write in a transaction is asked of the request as a whole."""
    refused = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert produced(address, marker(1, 5, 0)) == (refused, refused)


def test_damage_anywhere_in_a_batch(address: str) -> None:
    random = Random(7)
    for _ in range(300):
        content = batch(5)
        for _ in range(random.choice((1, 1, 4))):
            content[random.randrange(len(content))] = random.randrange(256)
        if random.random() < 0.8:
            content = with_crc(content)
        beside = produced(address, content)[1]
        is_transactional = content[22] & TRANSACTIONAL_FLAG
        assert beside is Errors.NONE or (
            is_transactional and beside is Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )


@pytest.mark.parametrize(
    ("codec", "expanded_bytes"),
    [
        (CompressionType.GZIP, 300 * MEBIBYTE),
        (CompressionType.SNAPPY, 20 * MEBIBYTE),
        (CompressionType.LZ4, 200 * MEBIBYTE),
        (CompressionType.ZSTD, 1_000 * MEBIBYTE),
    ],
)
def test_bombs(address: str, codec: CompressionType, expanded_bytes: int) -> None:
    """Kafka accepts them too: they are within max.message.bytes. Nobody has to wait for them."""
    piece = 1 << 18
    count = expanded_bytes // piece
    value = bytes(piece)
    records = build([(NOW_MS, None, value, ())] * count, codec)
    assert len(records) < MEBIBYTE
    assert produced(address, records) == (Errors.NONE, Errors.NONE)


def test_bombs_that_are_searched(address: str) -> None:
    """What lies in the log is expanded for every request for a time in it."""
    first: NewRecord = (NOW_MS, None, bytes(1 << 20), ())
    last: NewRecord = (NOW_MS + 5, None, b"", ())
    records = build([*[first] * 300, last], CompressionType.ZSTD)
    with RawClient(address) as client:
        response = client.ask(produce_request("bombs", records), PRODUCE_VERSION)
        assert response.responses[0].partition_responses[0].error_code == Errors.NONE
        for timestamp in (NOW_MS + 5, -3):
            partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            asked = ListOffsetsTopic(name="bombs", partitions=[partition])
            for _ in range(3):
                answer = client.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
                (found,) = answer.topics[0].partitions
                assert (found.timestamp, found.offset) == (NOW_MS + 5, 300)


# --- floods


def test_requests_whose_answers_nobody_reads(address: str) -> None:
    """The node stops reading such a client, and goes on where it was when the client reads."""
    frame = request_frame(MetadataRequest(topics=None), 12)
    sent = 0
    with RawClient(address) as client:
        client.socket.settimeout(1.0)
        try:
            while sent < 2_000_000:
                client.socket.sendall(frame * 1_000)
                sent += 1_000
        except TimeoutError:
            pass
        else:
            pytest.fail("two million requests were taken in without an answer being read")
        client.socket.settimeout(20)
        first = client.receive_frame()
        for _ in range(1_000):
            assert client.receive_frame() == first


def test_pipelined_requests_are_answered_in_order(address: str) -> None:
    with RawClient(address) as client:
        frames = []
        for number in range(200):
            request = (
                fetch_request("healthy", 0)
                if number % 3 == 0
                else produce_request("t", batch(1), acks=-1)
                if number % 3 == 1
                else MetadataRequest(topics=None)
            )
            version = (12, PRODUCE_VERSION, 12)[number % 3]
            frames.append(request_frame(request, version, correlation_id=number))
        client.send(b"".join(frames))
        found = [struct.unpack_from(">i", client.receive_frame())[0] for _ in range(200)]
    assert found == list(range(200))


def test_many_idle_connections(address: str, module_broker: BrokerProcess) -> None:
    before = module_broker.resident_bytes
    with ExitStack() as opened:
        clients = [opened.enter_context(RawClient(address)) for _ in range(800)]
        for client in clients:
            assert client.ask(API_VERSIONS, 4).error_code == Errors.NONE
        growth = module_broker.resident_bytes - before
        assert growth / len(clients) < 10_000
    assert wait_until(lambda: module_broker.descriptor_count < 200, 60)


def test_connections_that_come_and_go(address: str, module_broker: BrokerProcess) -> None:
    frame = request_frame(API_VERSIONS, 4)
    for number in range(1_500):
        with RawClient(address) as client:
            if number % 3 == 0:
                client.send(frame[: number % len(frame)])
            elif number % 3 == 1:
                client.send(frame)
                # Closing with data unread resets the connection.
                client.socket.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
    assert wait_until(lambda: module_broker.descriptor_count < 200, 60)


def test_fetches_of_everything(module_broker: BrokerProcess) -> None:
    # 50,000 partitions are 46 to 50 MiB of objects on a node that has done nothing before.
    growth_bytes_max = 64 << 20
    partition = FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=2**31 - 1, log_start_offset=-1
    )
    everything = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=2**31 - 1,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=f"none{number}",
                partitions=[
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=2**31 - 1)
                    for index in range(100)
                ],
            )
            for number in range(500)
        ],
    )
    with (
        HealthyClient(module_broker, growth_bytes_max),
        RawClient(module_broker.bootstrap_servers) as client,
    ):
        response = client.ask(everything, 12)
        errors = {found.error_code for topic in response.responses for found in topic.partitions}
        assert errors == {Errors.UNKNOWN_TOPIC_OR_PARTITION}
        everything.topics = [FetchTopic(topic="healthy", partitions=[partition])]
        assert client.ask(everything, 12).responses[0].partitions[0].error_code == Errors.NONE


def test_churn_of_fetch_sessions(address: str) -> None:
    sessions = set()
    with RawClient(address) as client:
        for _ in range(1_500):
            request = fetch_request("t", 0)
            request.session_epoch, request.max_wait_ms = 0, 0
            sessions.add(client.ask(request, 12).session_id)
    # When the cache is full, fetches are answered without a session.
    assert 0 in sessions
    assert len(sessions) <= 1_001


def test_topics_without_end(address: str) -> None:
    topic = CreatableTopic(
        name="wide", num_partitions=1_000_000, replication_factor=1, assignments=[], configs=[]
    )
    with RawClient(address) as client:
        (result,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics
        assert result.error_code != Errors.NONE
        topic.num_partitions = 2**31 - 1
        (result,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics
        assert result.error_code != Errors.NONE


def test_producer_ids_without_end(address: str) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    with RawClient(address) as client:
        found = {client.ask(request, 4).producer_id for _ in range(3_000)}
    assert len(found) == 3_000


def test_offsets_of_nothing(address: str) -> None:
    with RawClient(address) as client:
        assert client.ask(ListOffsetsRequest(replica_id=-1, topics=[]), 7).topics == []


# --- limits that an operator sets


def test_connections_of_one_address(broker_with_limits: BrokerProcess) -> None:
    address = broker_with_limits.bootstrap_servers
    with ExitStack() as opened:
        clients = []
        for _ in range(10):
            clients.append(opened.enter_context(RawClient(address)))
            assert clients[-1].ask(API_VERSIONS, 4).error_code == Errors.NONE
        with RawClient(address) as one_more:
            assert one_more.is_closed_by_peer()
        # Anyone who fills the listener of clients takes nothing from that of the quorum.
        assert is_served(broker_with_limits.controller)
        clients[0].close()
        assert wait_until(lambda: is_served(address), 60)


def is_served(address: str) -> bool:
    with RawClient(address) as client:
        try:
            return bool(client.ask(API_VERSIONS, 4).error_code == Errors.NONE)
        except (EOFError, OSError):
            return False


def test_size_of_requests(broker_with_limits: BrokerProcess) -> None:
    address = broker_with_limits.bootstrap_servers
    assert closes(address, struct.pack(">i", 100_001))
    with RawClient(address) as client:
        padding = b"\x00" * (100_000 - len(header(3, 1)) - 4)
        client.send(sized(header(3, 1) + struct.pack(">i", -1) + padding))
        assert client.receive_frame()


def test_clients_that_take_their_time(broker_with_limits: BrokerProcess) -> None:
    """One that says nothing, one that stops within a request, one that trickles; an honest one."""
    address = broker_with_limits.bootstrap_servers
    with (
        RawClient(address) as silent,
        RawClient(address) as half_way,
        RawClient(address) as trickling,
        RawClient(address) as honest,
    ):
        frame = request_frame(API_VERSIONS, 3)
        assert honest.ask(API_VERSIONS, 4).error_code == Errors.NONE
        half_way.send(frame + frame[:-1])
        assert half_way.receive_frame()
        trickling.send(struct.pack(">i", 90_000))
        assert wait_until(lambda: is_cut_off_while_sending(trickling), 30)
        assert silent.is_closed_by_peer()
        assert half_way.is_closed_by_peer()
        assert honest.ask(API_VERSIONS, 4).error_code == Errors.NONE


def is_cut_off_while_sending(client: RawClient) -> bool:
    try:
        client.send(b"\x00")
    except OSError:
        return True
    return False


@pytest.fixture(scope="module")
def broker_with_limits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    limits = ("max.connections.per.ip=10", "socket.request.max.bytes=100000")
    node = BrokerProcess(tmp_path_factory.mktemp("limits"), *limits)
    # Half a minute is too long for a test; where nothing is meant to be late, two seconds are not
    # too short.
    node.preamble = """
import kaa.limits, kaa.broker.duties
kaa.limits.NET_FIRST_REQUEST_SECONDS_MAX = kaa.limits.NET_FRAME_SECONDS_MAX = 2.0
kaa.broker.duties.NET_SWEEP_SECONDS = 0.1
"""
    with node as broker:
        yield broker
        broker.stop()
