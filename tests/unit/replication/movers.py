"""A node with two log directories over files in memory, and logs of every kind to move."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kaa.broker.node import Broker, running
from kaa.controller.port import ControllerRequestContext
from kaa.log.append import BY_COORDINATOR
from kaa.log.log import FetchIsolation
from kaa.log.producer_snapshots import encode_producer_snapshot
from kaa.model.topics import TopicPartition
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.broker.support import config, formatted
from tests.unit.log.batches import ABORT, COMMIT, batch, marker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaa.controller.image import PartitionImage
    from kaa.log.dirs import LogDirectory
    from kaa.log.log import UnifiedLog
    from kaa.log.sim_files import SimFiles

FIRST, SECOND = "/a", "/b"
DIRECTORIES = (FIRST, SECOND)
# Only where a test has a directory more.
THIRD = "/c"
THREE = f"log.dirs={FIRST},{SECOND},{THIRD}"
BASIC = (
    f"log.dirs={FIRST},{SECOND}",
    "metadata.log.dir=/m",
    "transaction.partition.verification.enable=false",
    "log.segment.bytes=1048576",
    "log.cleaner.enable=false",
    "controlled.shutdown.enable=false",
)
SETTINGS = config(*BASIC)
KEY = TopicPartition("t", 0)
SECONDS_MAX = 60
# Producers are forgotten some time after their last record.
LATER_MS = 4_000_000_000_000


def new_files() -> SimFiles:
    return formatted(SETTINGS)


@asynccontextmanager
async def node(files: SimFiles, *settings: str) -> AsyncIterator[Broker]:
    reports: list[str] = []
    broker = Broker(config(*BASIC, *settings), files=files, report=reports.append)
    broker.reports = reports  # type: ignore[attr-defined]  # For tests that read them.
    async with running(broker):
        yield broker


async def throttle(broker: Broker, bytes_per_second: int | None) -> None:
    """Sets the rate of moves, as an operator does."""
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    text = None if bytes_per_second is None else str(bytes_per_second)
    change = AlterableConfig(name=name, config_operation=0 if text else 1, value=text)
    resource = AlterConfigsResource(
        resource_type=4, resource_name=str(broker.config.node_id), configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await broker.services.controller.submit(request, ControllerRequestContext(1))
    assert [each.error_code for each in response.responses] == [Errors.NONE]
    key = (4, str(broker.config.node_id))
    await until(lambda: broker.services.image.configs.get(key, {}).get(name) == text)


async def create(broker: Broker, partitions: int = 1, /, **configs: str) -> Partition:
    """The first partition of a new topic."""
    await create_topic(broker, partitions, **configs)
    return find(broker)


async def create_topic(broker: Broker, partitions: int = 1, /, **configs: str) -> None:
    topic = CreatableTopic(
        name=KEY.topic,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    response = await broker.services.controller.submit(request, ControllerRequestContext(7))
    assert [result.error_code for result in response.topics] == [Errors.NONE]


def find(broker: Broker) -> Partition:
    found = broker.services.replicas.find(KEY.topic, KEY.partition)
    assert isinstance(found, Partition), found
    return found


def log_of(broker: Broker) -> UnifiedLog:
    return find(broker).online_log()


def alter(broker: Broker, path: str) -> Errors:
    replicas = broker.services.replicas
    assert replicas.moves is not None
    return replicas.moves.alter(KEY, path, replicas.find(*KEY))


def other(log: UnifiedLog) -> str:
    return SECOND if log.directory.path == FIRST else FIRST


async def until(condition: Callable[[], bool], *, seconds: float = 0.005) -> None:
    """Looks at a condition again and again, after so many seconds each."""
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():  # noqa: ASYNC110  A move goes on by itself.
            await asyncio.sleep(seconds)


async def moved(broker: Broker, path: str) -> None:
    """Waits until the partition is in this directory, and nothing of the move is left."""
    await until(lambda: log_of(broker).directory.path == path)
    assert not broker.services.logs.futures.logs


def image_of(broker: Broker) -> PartitionImage:
    return broker.services.image.topics["t"].partitions[0]


def is_assigned(broker: Broker, directory: LogDirectory) -> bool:
    return image_of(broker).directories[0] == directory.directory_id


def futures(files: SimFiles) -> list[str]:
    """The folders of copies."""
    return [
        f"{path}/{name}"
        for path in (*DIRECTORIES, THIRD)
        for name in (files.list_directory(path) if files.exists(path) else ())
        if name.endswith("-future")
    ]


def begin_swap(files: SimFiles, folder: str) -> None:
    """Renames the folder of a source as a swap does first, and is then ended by a crash."""
    path, name = folder.rsplit("/", 1)
    (copy,) = [each for each in futures(files) if each.rpartition("/")[2].startswith(f"{name}.")]
    aside = copy.rpartition("/")[2].removesuffix("-future") + "-delete"
    files.rename(folder, f"{path}/{aside}")


async def held_before_the_swap(broker: Broker) -> tuple[UnifiedLog, LogDirectory]:
    """A move whose target the controller knows, and whose source is busy; source and target."""
    await plain(await create(broker, file_delete_delay_ms="0"))
    source = log_of(broker)
    await until(lambda: is_assigned(broker, source.directory))
    source.is_cleaning = True
    target = next(each for each in broker.services.logs.directories if each is not source.directory)
    assert alter(broker, target.path) is Errors.NONE
    await until(lambda: is_assigned(broker, target))
    return source, target


def contents(log: UnifiedLog) -> dict[str, Any]:
    """Everything that a move has to keep, as one comparable value."""
    batches: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        region = log.read(offset, bytes_max=2**20, isolation=FetchIsolation.LOG_END).region
        if region is None:
            break
        piece = region.read()
        region.release()
        batches.append(piece)
        offset = _next_offset(piece)
    aborted = log.collect_aborted(log.log_start_offset, log.log_end_offset)
    return {
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "high watermark": log.high_watermark,
        "last stable": log.last_stable_offset,
        "records": b"".join(batches),
        "epochs": log.leader_epochs.entries,
        "producers": encode_producer_snapshot(log.producer_state.producers.values()),
        "aborted": sorted((one.producer_id, one.first_offset, one.last_offset) for one in aborted),
        "topic": log.topic_id,
    }


def _next_offset(piece: bytes) -> int:
    position = following = 0
    while position < len(piece):
        base = int.from_bytes(piece[position : position + 8], "big")
        length = int.from_bytes(piece[position + 8 : position + 12], "big")
        delta = int.from_bytes(piece[position + 23 : position + 27], "big")
        position, following = position + 12 + length, base + delta + 1
    return following


# --- kinds of logs


async def empty(partition: Partition) -> None:
    """Nothing was ever written."""


async def plain(partition: Partition) -> None:
    for number in range(50):
        partition.append(batch(3, value_bytes=100, timestamp=number), now_ms=number)


async def many_segments(partition: Partition) -> None:
    for number in range(20):
        partition.append(batch(3, value_bytes=100), now_ms=number)
        if number % 4 == 3:
            partition.online_log().roll(number)


async def trimmed_inside_a_batch(partition: Partition) -> None:
    await plain(partition)
    partition.online_log().increment_log_start_offset(31)


async def trimmed_to_nothing(partition: Partition) -> None:
    await plain(partition)
    log = partition.online_log()
    log.increment_log_start_offset(log.log_end_offset)


async def trimmed_by_segments(partition: Partition) -> None:
    await many_segments(partition)
    log = partition.online_log()
    log.increment_log_start_offset(26)
    doomed = [s for s in log.segments if s.base_offset < 24]
    log.remove_segments(doomed, 0)
    log.local_log_start_offset = log.log_start_offset


async def idempotent(partition: Partition) -> None:
    """Several producers, one at the edge of its sequences and one that has no record left."""

    def append(producer_id: int, epoch: int, sequence: int) -> None:
        content = batch(
            2,
            producer_id=producer_id,
            producer_epoch=epoch,
            sequence=sequence,
            timestamp=LATER_MS,
        )
        partition.append(content, now_ms=0)

    append(9, 0, 0)
    append(7, 0, 2**31 - 2)
    append(7, 0, 0)
    for epoch in range(8):
        append(8, epoch, 0)
    partition.online_log().increment_log_start_offset(2)


async def transactional(partition: Partition) -> None:
    """One committed, one aborted and one open transaction."""

    def append(content: bytearray, **more: Any) -> None:
        partition.append(content, now_ms=0, **more)

    def records(producer_id: int, sequence: int) -> None:
        append(
            batch(
                2,
                producer_id=producer_id,
                producer_epoch=0,
                sequence=sequence,
                timestamp=LATER_MS,
                transactional=True,
            )
        )

    def end(kind: int, producer_id: int) -> None:
        append(marker(kind, producer_id, 0, timestamp=LATER_MS), source=BY_COORDINATOR)

    records(1, 0)
    records(2, 0)
    end(COMMIT, 1)
    end(ABORT, 2)
    await plain(partition)
    records(1, 2)
    records(3, 0)
    end(ABORT, 1)


KINDS = (
    empty,
    plain,
    many_segments,
    trimmed_inside_a_batch,
    trimmed_to_nothing,
    trimmed_by_segments,
    idempotent,
    transactional,
)
