"""A log directory that fails while it is served: every request is answered, partition by partition.

A disk may vanish, so that nothing on it can be opened any more, or stay and refuse to be read and
written. A client gets KAFKA_STORAGE_ERROR for the partitions that were there, keeps its
connection, and is served the other partitions.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any, cast

import pytest

from kaa.broker.node import Broker, running
from kaa.client import Admin, NewTopic
from kaa.log.sim_files import SimFile, SimFiles
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kaa.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kaa.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kaa.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from kaa.wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from tests.unit.broker.support import config, formatted
from tests.unit.log.batches import batch

FIRST, SECOND = "/a", "/b"
SETTINGS = config(f"log.dirs={FIRST},{SECOND}", f"metadata.log.dir={FIRST}")
TOPIC = "t"
NUMBERS = range(4)
STAMP_MS = 1_000
# The last version that names topics.
NAMES_VERSION = 12


def is_broken(files: SimFiles, path: str) -> bool:
    return path.startswith(SECOND) and getattr(files, "is_unreadable", False)


def check(files: SimFiles, path: str) -> None:
    if is_broken(files, path):
        raise OSError(errno.EIO, "Input/output error", path)


class Disks(SimFiles):
    """Files whose second directory can refuse everything."""

    is_unreadable = False

    def open(self, path: str) -> SimFile:
        check(self, path)
        return super().open(path)

    def list_directory(self, path: str) -> list[str]:
        check(self, path)
        return super().list_directory(path)

    def step(self, operation: Any, path: str) -> None:
        check(self, path)
        super().step(operation, path)

    def vanish(self) -> None:
        self.rename(SECOND, "/gone")

    def refuse(self) -> None:
        self.is_unreadable = True


@pytest.fixture(autouse=True)
def failing_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is open cannot be read either."""
    read, read_into = SimFile.read, SimFile.read_into

    def checked_read(self: SimFile, length: int, position: int) -> bytes:
        check(self._files, self.path)
        return read(self, length, position)

    def checked_read_into(self: SimFile, buffer: bytearray | memoryview, position: int) -> int:
        check(self._files, self.path)
        return read_into(self, buffer, position)

    monkeypatch.setattr(SimFile, "read", checked_read)
    monkeypatch.setattr(SimFile, "read_into", checked_read_into)


def list_offsets(timestamp: int) -> ListOffsetsRequest:
    rows = [ListOffsetsPartition(partition_index=one, timestamp=timestamp) for one in NUMBERS]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=rows)], timeout_ms=1_000
    )


def fetch(offset: int) -> FetchRequest:
    rows = [
        FetchPartition(partition=one, fetch_offset=offset, partition_max_bytes=1_000)
        for one in NUMBERS
    ]
    return FetchRequest(max_bytes=10_000, topics=[FetchTopic(topic=TOPIC, partitions=rows)])


def produce() -> ProduceRequest:
    rows = [PartitionProduceData(index=one, records=batch(1)) for one in NUMBERS]
    topic = TopicProduceData(name=TOPIC, partition_data=rows)
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])


def leader_epochs() -> OffsetForLeaderEpochRequest:
    rows = [OffsetForLeaderPartition(partition=one, leader_epoch=0) for one in NUMBERS]
    topic = OffsetForLeaderTopic(topic=TOPIC, partitions=rows)
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])


def delete_records() -> DeleteRecordsRequest:
    rows = [DeleteRecordsPartition(partition_index=one, offset=7) for one in NUMBERS]
    topic = DeleteRecordsTopic(name=TOPIC, partitions=rows)
    return DeleteRecordsRequest(topics=[topic], timeout_ms=1_000)


def move(path: str) -> AlterReplicaLogDirsRequest:
    topic = AlterReplicaLogDirTopic(name=TOPIC, partitions=list(NUMBERS))
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])


def describe_producers() -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[TopicRequest(name=TOPIC, partition_indexes=list(NUMBERS))]
    )


def rows_of(response: Any) -> dict[int, int]:
    """The error of each partition, whatever the answer calls it."""
    found = {}
    for topic in _first(response, "topics", "responses", "results"):
        for row in _first(topic, "partition_responses", "partitions"):
            found[_first(row, "partition_index", "partition", "index")] = row.error_code
    return found


def _first(row: Any, *names: str) -> Any:
    return next(getattr(row, name) for name in names if hasattr(row, name))


REQUESTS: dict[str, Callable[[], Any]] = {
    "offset by time": lambda: list_offsets(STAMP_MS + 12),
    "offset of the latest time": lambda: list_offsets(-3),
    "earliest offset": lambda: list_offsets(-2),
    "latest offset": lambda: list_offsets(-1),
    "earliest local offset": lambda: list_offsets(-4),
    "latest tiered offset": lambda: list_offsets(-5),
    "fetch of old records": lambda: fetch(0),
    "fetch of new records": lambda: fetch(15),
    "fetch at the end": lambda: fetch(20),
    "produce": produce,
    "leader epochs": leader_epochs,
    "delete records": delete_records,
    "describe producers": describe_producers,
    "move away": lambda: move(FIRST),
    "move there": lambda: move(SECOND),
}


@pytest.fixture(scope="module")
def filled() -> tuple[SimFiles, set[int]]:
    """Four segments of five records in each partition; and which are in the second directory."""
    files = formatted(SETTINGS)

    async def main() -> set[int]:
        node, second = Broker(SETTINGS, files=files), set()
        async with running(node), Admin(bootstrap_servers=node.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic(TOPIC, len(NUMBERS), 1)])
            for number in NUMBERS:
                found = cast("Partition", node.services.replicas.find(TOPIC, number))
                log = found.online_log()
                for turn in range(4):
                    found.append(batch(5, timestamp=STAMP_MS + 5 * turn), now_ms=0)
                    log.roll(0)
                if log.directory.path == SECOND:
                    second.add(number)
        return second

    return files, asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "fail"),
    [
        *((name, Disks.refuse) for name in REQUESTS),
        *((name, Disks.vanish) for name in ("offset by time", "fetch of old records", "produce")),
    ],
)
def test_a_failed_directory_costs_no_connection(
    filled: tuple[SimFiles, set[int]], name: str, fail: Callable[[Disks], None]
) -> None:
    files, reports = Disks(), list[str]()
    files._root = filled[0].restart("kill")._root
    concerned = set(NUMBERS) if name == "move there" else filled[1]

    async def main() -> None:
        node = Broker(SETTINGS, files=files, report=reports.append)
        async with running(node), Admin(bootstrap_servers=node.bootstrap_servers) as admin:
            await admin.list_topics()
            connection = await admin.cluster.any_connection()
            fail(files)
            # The first finds out, the second is notified.
            for _ in range(2):
                request = REQUESTS[name]()
                version = min(connection.version_of(request.api_key), NAMES_VERSION)
                codes = rows_of(await connection.request(request, version=version))
                assert set(codes) == set(NUMBERS)
                for number, code in codes.items():
                    can_fail = code == Errors.KAFKA_STORAGE_ERROR and number in concerned
                    assert can_fail or code == Errors.NONE, (number, Errors.of(code))
            logs = await connection.request(DescribeLogDirsRequest(topics=None))
            assert {one.log_dir for one in logs.results} == {FIRST, SECOND}
            await connection.request(ApiVersionsRequest(), version=0)
            assert connection.is_open

    asyncio.run(main())
    assert not [line for line in reports if "failed: " in line], reports
