"""DescribeLogDirs, key 35: the log directories of this broker and the logs in them (KIP-113).

A null list asks for all partitions. Every directory is answered, also one without any of them; an
offline one with KAFKA_STORAGE_ERROR and nothing else. Partitions that are not here are left out. A
future replica is one that moves to the directory (AlterReplicaLogDirs); its lag is what it has yet
to copy.

Version 3 has an error of the whole answer, version 4 the size and the free space of the disk
(KIP-827), version 5 says whether a directory takes new partitions (KIP-1066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.controller.feature_table import CORDONED_LOG_DIRS, METADATA_VERSION
from kaa.handlers.in_slices import in_slices
from kaa.limits import DESCRIBED_LOGS_PER_SLICE_MAX
from kaa.model.topics import TopicPartition
from kaa.serving.disk_space import disk_space
from kaa.wire.errors import Errors
from kaa.wire.messages.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.log.dirs import LogDirectory
    from kaa.log.log import UnifiedLog
    from kaa.log.manager import LogManager
    from kaa.serving.services import Services
    from kaa.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest


_UNKNOWN_LAG: Final = -1


def handle(
    services: Services, request: DescribeLogDirsRequest, _: RequestContext
) -> Answer[DescribeLogDirsResponse]:
    topics: dict[tuple[str, str], DescribeLogDirsTopic] = {}
    if request.topics is not None:
        return in_slices(
            [(topic.topic, number) for topic in request.topics for number in topic.partitions],
            _Adding(services.logs, topics),
            lambda _: _response(services, topics),
            slice_max=DESCRIBED_LOGS_PER_SLICE_MAX,
        )
    return in_slices(
        [log for one in services.logs.online_directories for log in one.every_log.values()],
        lambda log: _add(topics, log, services.logs),
        lambda _: _response(services, topics),
        slice_max=DESCRIBED_LOGS_PER_SLICE_MAX,
    )


class _Adding:
    """Adds the logs of a partition that is named, wherever they are; the second time, none."""

    def __init__(
        self, logs: LogManager, topics: dict[tuple[str, str], DescribeLogDirsTopic]
    ) -> None:
        self._logs = logs
        self._topics = topics
        self._added: set[tuple[str, int]] = set()

    def __call__(self, name: tuple[str, int]) -> None:
        if name in self._added:
            return
        self._added.add(name)
        partition = TopicPartition(*name)
        for directory in self._logs.online_directories:
            log = directory.logs.get(partition) or directory.futures.get(partition)
            if log is not None:
                _add(self._topics, log, self._logs)


def _add(
    topics: dict[tuple[str, str], DescribeLogDirsTopic], log: UnifiedLog, logs: LogManager
) -> None:
    """Adds a log to those of its directory and topic, unless it was moved or deleted since it was
    found.
    """
    current = logs.get(log.partition)
    is_future = current is not log
    if is_future and logs.futures.get(log.partition) is not log:
        return
    name = log.partition.topic
    topic = topics.get((log.directory.path, name))
    if topic is None:
        topic = DescribeLogDirsTopic(name=name, partitions=[])
        topics[log.directory.path, name] = topic
    # How far a replica is behind what it knows to be replicated.
    lag = max(log.high_watermark - log.log_end_offset, 0)
    if is_future:
        lag = _UNKNOWN_LAG if current is None else current.log_end_offset - log.log_end_offset
    topic.partitions.append(
        DescribeLogDirsPartition(
            partition_index=log.partition.partition,
            partition_size=log.size_in_bytes,
            offset_lag=lag,
            is_future_key=is_future,
        )
    )


def _response(
    services: Services, topics: dict[tuple[str, str], DescribeLogDirsTopic]
) -> DescribeLogDirsResponse:
    by_directory: dict[str, list[DescribeLogDirsTopic]] = {}
    for (path, _), topic in topics.items():
        by_directory.setdefault(path, []).append(topic)
    knows_cordons = services.image.features.get(METADATA_VERSION, 0) >= CORDONED_LOG_DIRS
    return DescribeLogDirsResponse(
        results=[
            _directory(
                directory,
                by_directory.get(directory.path, []),
                is_cordoned=knows_cordons and directory.is_cordoned,
            )
            for directory in services.logs.directories
        ]
    )


def _directory(
    directory: LogDirectory, topics: list[DescribeLogDirsTopic], *, is_cordoned: bool
) -> DescribeLogDirsResult:
    if not directory.is_online:
        return DescribeLogDirsResult(
            error_code=Errors.KAFKA_STORAGE_ERROR, log_dir=directory.path, is_cordoned=is_cordoned
        )
    space = disk_space(directory.path)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=topics,
        total_bytes=space.total_bytes,
        usable_bytes=space.usable_bytes,
        is_cordoned=is_cordoned,
    )
