"""DescribeLogDirs, key 35: the log directories of this broker and the logs in them (KIP-113).

A null list asks for all partitions. Every directory is answered, also one without any of them; an
offline one with KAFKA_STORAGE_ERROR and nothing else. Partitions that are not here are left out.

Version 3 has an error of the whole answer, version 4 the size and the free space of the disk
(KIP-827), version 5 says whether a directory takes new partitions (KIP-1066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.log.names import TopicPartition
from kaa.serving.disk_space import disk_space
from kaa.wire.errors import Errors
from kaa.wire.messages.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from kaa.handlers.context import RequestContext
    from kaa.log.dirs import LogDirectory
    from kaa.serving.services import Services
    from kaa.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest


def handle(
    services: Services, request: DescribeLogDirsRequest, _context: RequestContext
) -> DescribeLogDirsResponse:
    wanted: AbstractSet[TopicPartition] = services.logs.logs.keys()
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, number)
            for topic in request.topics
            for number in topic.partitions
        }
    cordoned = services.config.cordoned_log_dirs
    return DescribeLogDirsResponse(
        results=[
            _directory(directory, wanted, is_cordoned=directory.path in cordoned)
            for directory in services.logs.directories
        ]
    )


def _directory(
    directory: LogDirectory, wanted: AbstractSet[TopicPartition], *, is_cordoned: bool
) -> DescribeLogDirsResult:
    if not directory.is_online:
        return DescribeLogDirsResult(
            error_code=Errors.KAFKA_STORAGE_ERROR, log_dir=directory.path, is_cordoned=is_cordoned
        )
    topics: dict[str, DescribeLogDirsTopic] = {}
    for key in sorted(directory.logs.keys() & wanted):
        log = directory.logs[key]
        topic = topics.setdefault(key.topic, DescribeLogDirsTopic(name=key.topic, partitions=[]))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=key.partition,
                partition_size=log.size_in_bytes,
                # How far a replica is behind what it knows to be replicated.
                offset_lag=max(log.high_watermark - log.log_end_offset, 0),
            )
        )
    space = disk_space(directory.path)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=space.total_bytes,
        usable_bytes=space.usable_bytes,
        is_cordoned=is_cordoned,
    )
