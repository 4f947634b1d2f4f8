"""DeleteRecords, key 21: moves the start of partitions forward (KIP-107).

Offset -1 stands for the high watermark. The new start is on disk before the answer; the files
before it go with the next check of retention. A topic that is only compacted keeps what it has. The
answer waits until all live replicas start there too, which their next fetches tell, or until its
time is up.

A topic that appears twice is answered once, of a partition that appears twice the last offset
counts, and a topic without partitions is left out, as in Kafka.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX, OFFSETS_LISTED_PER_SLICE_MAX
from kaa.log.errors import LogError
from kaa.model.topics import INTERNAL_TOPICS, TopicPartition
from kaa.model.turns import Turns
from kaa.net.pending import Pending
from kaa.replication.partition import Awaited, Partition
from kaa.serving.applied import until_applied
from kaa.serving.delayed import Wait
from kaa.wire.errors import Errors
from kaa.wire.messages.k21_delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.log.dirs import LogDirectory
    from kaa.serving.services import Services
    from kaa.wire.messages.k21_delete_records import DeleteRecordsRequest

_HIGH_WATERMARK: Final = -1
_NO_LOW_WATERMARK: Final = -1


def handle(
    services: Services, request: DeleteRecordsRequest, _context: RequestContext
) -> Answer[DeleteRecordsResponse]:
    return Pending(_delete_records(services, request))


async def _delete_records(
    services: Services, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    wanted: dict[str, dict[int, int]] = {}
    looks = Turns(NAMES_ANSWERED_PER_SLICE_MAX)
    for topic in request.topics:
        await looks.next()
        # One without partitions is not answered.
        if topic.partitions:
            offsets = wanted.setdefault(topic.name, {})
            offsets |= {one.partition_index: one.offset for one in topic.partitions}
    topics: dict[str, list[DeleteRecordsPartitionResult]] = {name: [] for name in wanted}
    asked = ((name, number) for name, offsets in wanted.items() for number in offsets)
    await until_applied(services.replicas, asked)
    turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
    begun: list[_Deleting] = []
    touched: dict[str, LogDirectory] = {}
    for name, offsets in wanted.items():
        await looks.next()
        for number, offset in sorted(offsets.items()):
            await turns.next()
            result = DeleteRecordsPartitionResult(partition_index=number)
            topics[name].append(result)
            found = services.replicas.find(name, number)
            if isinstance(found, Partition):
                await found.until_swapped()
            try:
                one = _begin(services, TopicPartition(name, number), offset, result)
            except LogError as error:
                _fail(result, error.error)
                continue
            begun.append(one)
            if one.directory is not None:
                touched[one.directory.path] = one.directory
    for directory in touched.values():
        await _checkpoint(services, directory)
    waiting = []
    for one in begun:
        await turns.next()
        # Its followers hear of it with their next fetch.
        one.partition.wake(Awaited.LOW_WATERMARK)
        if one.note_progress():
            waiting.append(one)
    if waiting:
        await _until_deleted(services, waiting, request.timeout_ms)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=name, partitions=results)
            for name, results in topics.items()
            if results
        ]
    )


class _Deleting(NamedTuple):
    """A partition whose start was moved here, and has to be moved by its other replicas."""

    partition: Partition
    offset: int
    result: DeleteRecordsPartitionResult
    # Where the start of its log is not durable yet.
    directory: LogDirectory | None

    def note_progress(self) -> bool:
        """Writes into the answer how it stands; True while a live replica has records before the
        offset.
        """
        partition, result = self.partition, self.result
        if self.directory is not None and not self.directory.is_online:
            _fail(result, Errors.KAFKA_STORAGE_ERROR)
            return False
        refusal = partition.read_refusal()
        if refusal is not None:
            _fail(result, refusal)
            return False
        result.low_watermark = partition.low_watermark
        return result.low_watermark < self.offset


def _begin(
    services: Services, key: TopicPartition, offset: int, result: DeleteRecordsPartitionResult
) -> _Deleting:
    """Moves the start of a log of this node; LogError if it cannot be."""
    partition, offset = _position(services, key, offset)
    return _Deleting(partition, offset, result, services.logs.delete_records(key, offset))


async def _checkpoint(services: Services, directory: LogDirectory) -> None:
    """Makes the starts of the logs of a directory durable; if that fails, so does the directory."""
    for job in services.logs.checkpoint_starts(directory):
        if job is None:
            await asyncio.sleep(0)
            continue
        try:
            await services.loop.run_in_executor(services.batch_work, job.run)
        except OSError as error:
            job.failed(error)


async def _until_deleted(services: Services, waiting: list[_Deleting], timeout_ms: int) -> None:
    known = [one.result.low_watermark for one in waiting]

    def answer(is_late: bool) -> bool | None:
        left = [one for one in waiting if one.note_progress()]
        if left and not is_late:
            return None
        for one, low_watermark in zip(waiting, known, strict=True):
            if one in left:
                one.result.error_code = Errors.REQUEST_TIMED_OUT
                one.result.low_watermark = low_watermark
        return True

    partitions = [one.partition for one in waiting]
    await Wait(services.loop, partitions, timeout_ms, answer, Awaited.LOW_WATERMARK).done


def _position(services: Services, key: TopicPartition, offset: int) -> tuple[Partition, int]:
    """The partition, and the offset to start at; LogError says why it cannot be."""
    partition = services.replicas.find(key.topic, key.partition)
    if partition is not Errors.UNKNOWN_TOPIC_OR_PARTITION and key.topic in INTERNAL_TOPICS:
        raise LogError(Errors.INVALID_TOPIC_EXCEPTION, f"{key.topic} is internal")
    if isinstance(partition, Errors):
        raise LogError(partition, f"{key} is not here")
    refusal = partition.read_refusal()
    if refusal is not None:
        raise LogError(refusal, f"{key} is not led here")
    log = partition.online_log()
    if log.config.compact and not log.config.delete:
        raise LogError(Errors.POLICY_VIOLATION, f"{key} is compacted")
    if offset == _HIGH_WATERMARK:
        return partition, log.high_watermark
    if offset < 0:
        raise LogError(Errors.OFFSET_OUT_OF_RANGE, f"{offset} is not an offset")
    return partition, offset


def _fail(result: DeleteRecordsPartitionResult, error: Errors) -> None:
    result.error_code, result.low_watermark = error, _NO_LOW_WATERMARK
