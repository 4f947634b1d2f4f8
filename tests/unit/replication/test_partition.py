from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from kaa.log.append import AppendInfo
from kaa.log.errors import LogError
from kaa.log.log import FetchIsolation
from kaa.log.sim_files import Fault
from kaa.log.truncation import truncate_fully_and_start_at
from kaa.model.kinds import ACKS_ALL
from kaa.replication.partition import Awaited, EpochEnd, Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.log.batches import batch
from tests.unit.replication.support import NODE, TOPIC_ID, Replicas


def append(partition: Partition, count: int = 1) -> int:
    return partition.append(batch(count), now_ms=0, required_acks=1).first_offset


def high_watermark(partition: Partition) -> int:
    return partition.online_log().high_watermark


def test_single_replica_sees_its_appends_at_once() -> None:
    partition = Replicas().create()
    assert append(partition, 3) == 0
    assert high_watermark(partition) == 3
    assert partition.online_log().high_watermark >= 3
    assert partition.online_log().high_watermark < 4


def test_high_watermark_is_the_least_of_the_in_sync_replicas() -> None:
    partition = Replicas().create(replicas=(NODE, 2, 3))
    append(partition, 5)
    assert high_watermark(partition) == 0
    partition.replica_fetched(2, 5)
    assert high_watermark(partition) == 0
    partition.replica_fetched(3, 4)
    assert high_watermark(partition) == 4
    partition.replica_fetched(3, 2)
    assert high_watermark(partition) == 4


def test_replica_that_leaves_the_set_is_not_waited_for() -> None:
    replicas = Replicas()
    partition = replicas.create(replicas=(NODE, 2))
    append(partition, 5)
    assert high_watermark(partition) == 0
    change = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[NODE])
    replicas.replay(change)
    assert high_watermark(partition) == 5


def test_waiters_hear_of_progress_until_they_leave() -> None:
    partition = Replicas().create()
    heard: list[int] = []

    def waiter() -> None:
        heard.append(high_watermark(partition))

    partition.wait(waiter)
    append(partition)
    append(partition)
    partition.forget(waiter)
    append(partition)
    assert heard == [1, 2]


def test_waiters_hear_of_what_they_wait_for() -> None:
    partition = Replicas().create(replicas=(NODE, 2))
    heard: list[Awaited] = []
    for awaited in Awaited:
        partition.wait(partial(heard.append, awaited), awaited)
    append(partition)
    assert heard == [Awaited.LOG_END]
    heard.clear()
    partition.replica_fetched(2, 1, 0)
    assert heard == [Awaited.HIGH_WATERMARK, Awaited.LOW_WATERMARK]
    heard.clear()
    partition.replica_fetched(2, 1, 0)
    assert not heard
    partition.stop_leading()
    assert heard == list(Awaited)


def test_what_becomes_of_acks_all() -> None:
    replicas = Replicas()
    partition = replicas.create(replicas=(NODE, 2, 3))
    partition.min_insync_replicas = 2
    append(partition)
    assert partition.replication_outcome(1, 0) is None
    for replica in (2, 3):
        partition.replica_fetched(replica, 1)
    assert partition.replication_outcome(1, 0) is Errors.NONE
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[NODE]))
    assert partition.append_refusal(ACKS_ALL) is not None
    # It was replicated, but the answer says that the set is too small now.
    assert partition.replication_outcome(1, 0) is Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    append(partition)
    assert partition.replication_outcome(2, 0) is None
    assert high_watermark(partition) == 1
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))
    assert partition.replication_outcome(1, 0) is Errors.NOT_LEADER_OR_FOLLOWER
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE))
    # Others may have led meanwhile, and the offset may be of another record.
    assert partition.replication_outcome(1, 0) is Errors.NOT_LEADER_OR_FOLLOWER
    assert partition.replication_outcome(1, 2) is Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_replica_that_is_not_assigned_changes_nothing() -> None:
    partition = Replicas().create(replicas=(NODE, 2))
    append(partition)
    partition.replica_fetched(9, 1)
    assert high_watermark(partition) == 0
    assert partition.check_follower(9, -1, knows_epoch=False) is Errors.NOT_LEADER_OR_FOLLOWER
    assert partition.check_follower(9, -1, knows_epoch=True) is Errors.UNKNOWN_LEADER_EPOCH
    assert partition.check_follower(2, -1, knows_epoch=True) is Errors.NONE


# --- as follower


def followed() -> tuple[Replicas, Partition]:
    replicas = Replicas()
    partition = replicas.create(replicas=(NODE, 2))
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))
    return replicas, partition


def copy(partition: Partition, records: bytearray, leader_epoch: int = 1) -> AppendInfo:
    return asyncio.run(
        partition.append_as_follower(memoryview(records), leader_epoch=leader_epoch, now_ms=0)
    )


def test_batches_of_the_leader_are_taken_as_they_are() -> None:
    _, partition = followed()
    info = copy(partition, batch(3, base_offset=0, leader_epoch=1))
    assert (info.first_offset, info.last_offset, info.last_leader_epoch) == (0, 2, 1)
    partition.follow(2, 0, 1)
    assert (high_watermark(partition), partition.online_log().log_end_offset) == (2, 3)
    partition.follow(99, 1, 1)
    assert high_watermark(partition) == 3
    assert partition.online_log().log_start_offset == 1
    # What was committed once stays so, also if a new leader does not know it yet.
    partition.follow(0, 0, 1)
    assert high_watermark(partition) == 3


def test_only_the_followed_epoch_is_appended() -> None:
    replicas, partition = followed()
    with pytest.raises(LogError) as refused:
        copy(partition, batch(1), leader_epoch=0)
    assert refused.value.error is Errors.NOT_LEADER_OR_FOLLOWER
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE))
    with pytest.raises(LogError):
        copy(partition, batch(1), leader_epoch=2)


def test_an_empty_log_starts_with_the_batch_that_holds_its_first_offset() -> None:
    _, partition = followed()
    log = partition.online_log()
    truncate_fully_and_start_at(log, 5, 0)
    copy(partition, batch(4, base_offset=3, leader_epoch=1))
    assert (log.log_start_offset, log.log_end_offset) == (3, 7)
    partition.follow(7, 5, 1)
    assert log.log_start_offset == 5
    with pytest.raises(LogError):
        copy(partition, batch(4, base_offset=3, leader_epoch=1))


def test_with_group_commit_a_copy_counts_when_it_is_durable() -> None:
    replicas = Replicas(request_flush=lambda _: None)
    partition = replicas.create(replicas=(NODE, 2))
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))

    async def main() -> None:
        records = memoryview(batch(2, leader_epoch=1))
        async with asyncio.TaskGroup() as tasks:
            copying = tasks.create_task(
                partition.append_as_follower(records, leader_epoch=1, now_ms=0)
            )
            await asyncio.sleep(0.01)
            assert partition.online_log().log_end_offset == 2
            assert not copying.done()
            partition.online_log().flush(0)
            partition.flushed()
            await asyncio.wait_for(copying, 60)

    asyncio.run(main())


def test_lost_leadership_is_told() -> None:
    replicas = Replicas()
    partition = replicas.create(replicas=(NODE, 2))
    heard: list[bool] = []
    partition.wait(lambda: heard.append(partition.is_leader))
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))
    assert heard == [False]
    assert partition.leader_epoch == 1


def test_epochs_are_compared() -> None:
    replicas = Replicas()
    partition = replicas.create()
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE))
    assert partition.read_refusal(-1) is None
    assert partition.read_refusal(1) is None
    assert partition.read_refusal(0) is Errors.FENCED_LEADER_EPOCH
    assert partition.read_refusal(2) is Errors.UNKNOWN_LEADER_EPOCH


def test_epochs_are_compared_before_it_is_asked_who_leads() -> None:
    replicas = Replicas()
    partition = replicas.create(replicas=(NODE, 2))
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))
    for epoch in (-1, 1):
        assert partition.read_refusal(epoch) is Errors.NOT_LEADER_OR_FOLLOWER
        assert partition.read_refusal(epoch, needs_leader=False) is None
    for needs_leader in (False, True):
        stale = partition.read_refusal(0, needs_leader=needs_leader)
        assert stale is Errors.FENCED_LEADER_EPOCH
        early = partition.read_refusal(2, needs_leader=needs_leader)
        assert early is Errors.UNKNOWN_LEADER_EPOCH


def test_ends_of_epochs() -> None:
    replicas = Replicas()
    partition = replicas.create()
    append(partition, 4)
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE))
    append(partition, 2)
    assert partition.epoch_end(0) == EpochEnd(0, 4)
    assert partition.epoch_end(1) == EpochEnd(1, 6)
    assert partition.epoch_end(-1) == EpochEnd(-1, -1)


def test_enough_replicas() -> None:
    partition = Replicas().create(replicas=(NODE, 2))
    partition.min_insync_replicas = 2
    assert partition.append_refusal(ACKS_ALL) is None
    # More than there can be is not asked for.
    partition.min_insync_replicas = 3
    assert partition.append_refusal(ACKS_ALL) is None


def test_reads_stop_at_the_high_watermark() -> None:
    partition = Replicas().create(replicas=(NODE, 2))
    append(partition, 2)
    partition.replica_fetched(2, 2)
    append(partition, 3)
    result = partition.read(0, 10_000, FetchIsolation.HIGH_WATERMARK, min_one=True)
    assert result.region is not None
    committed = result.region.length
    result.region.release()
    result = partition.read(0, 10_000, FetchIsolation.LOG_END, min_one=True)
    assert result.region is not None
    assert result.region.length > committed
    result.region.release()


def test_offline_directory_refuses() -> None:
    partition = Replicas().create()
    partition.log = None
    with pytest.raises(LogError) as refused:
        append(partition)
    assert refused.value.error is Errors.KAFKA_STORAGE_ERROR


def test_group_commit_counts_only_what_was_flushed() -> None:
    told: list[Partition] = []
    partition = Replicas(request_flush=told.append).create()
    append(partition, 2)
    assert told == [partition]
    assert high_watermark(partition) == 0
    log = partition.online_log()
    job = log.flush_job()
    job.run()
    log.complete_flush(job, now_ms=0)
    partition.advance_high_watermark()
    assert high_watermark(partition) == 2


def test_group_commit_flushes_what_a_new_leader_finds_in_its_log() -> None:
    told: list[Partition] = []
    partition = Replicas(request_flush=told.append).create()
    append(partition, 2)
    partition.stop_leading()
    told.clear()
    partition.update(partition.image)
    assert told == [partition]


# --- appends that a thread writes


def test_appends_off_the_loop_keep_one_order() -> None:
    partition = Replicas().create()
    log = partition.online_log()

    async def main() -> list[int]:
        with ThreadPoolExecutor(1) as writer:
            log.directory.writer = writer
            first = partition.append_later(batch(2), now_ms=0)
            second = partition.append_later(batch(3), now_ms=0)
            infos = asyncio.gather(first, second)
            await asyncio.sleep(0)
            assert log.pending is not None
            # One that cannot wait for its turn settles what is under way.
            between = append(partition)
            return [between, *(info.first_offset for info in await infos)]

    assert sorted(asyncio.run(main())) == [0, 2, 3]
    assert log.log_end_offset == high_watermark(partition) == 6
    assert log.pending is None


def test_a_failed_write_off_the_loop_is_told() -> None:
    replicas = Replicas()
    partition = replicas.create()
    directory = partition.online_log().directory
    replicas.files.faults.append(Fault("write", ".log"))

    async def main() -> None:
        with ThreadPoolExecutor(1) as writer:
            directory.writer = writer
            with pytest.raises(LogError) as caught:
                await partition.append_later(batch(2), now_ms=0)
        assert caught.value.error is Errors.KAFKA_STORAGE_ERROR

    asyncio.run(main())
    assert not directory.is_online


def test_leadership_that_is_lost_meanwhile_refuses_what_waits() -> None:
    replicas = Replicas()
    partition = replicas.create(replicas=(NODE, 2))
    log = partition.online_log()

    async def main() -> None:
        with ThreadPoolExecutor(1) as writer:
            log.directory.writer = writer
            first = partition.append_later(batch(2), now_ms=0)
            second = partition.append_later(batch(3), now_ms=0)
            results = asyncio.gather(first, second, return_exceptions=True)
            await asyncio.sleep(0)
            change = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2)
            replicas.replay(change)
            done, refused = await results
            assert isinstance(done, AppendInfo)
            assert isinstance(refused, LogError)
            assert refused.error is Errors.NOT_LEADER_OR_FOLLOWER

    asyncio.run(main())
    assert log.log_end_offset == 2


def test_records_are_let_go_with_the_append() -> None:
    """At once: anyone who waits for the collector of garbage holds megabytes for every request."""
    partition = Replicas().create()
    records = batch(2)

    async def main() -> None:
        may_write = threading.Event()
        with ThreadPoolExecutor(1) as writer:
            partition.online_log().directory.writer = writer
            writer.submit(may_write.wait, 10)
            asyncio.get_running_loop().call_later(0.01, may_write.set)
            await partition.append_later(memoryview(records), now_ms=0)
            await asyncio.sleep(0)

    gc.disable()
    try:
        asyncio.run(main())
        # A buffer with a view of it refuses to grow.
        records.append(0)
    finally:
        gc.enable()


def test_the_leader_refuses_what_it_may_not_append() -> None:
    replicas = Replicas()
    partition = replicas.create(replicas=(NODE, 2))
    partition.min_insync_replicas = 2
    assert partition.append_refusal(-1) is None
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[NODE]))
    assert partition.append_refusal(-1) is Errors.NOT_ENOUGH_REPLICAS
    assert partition.append_refusal(1) is None
    with pytest.raises(LogError) as refusal:
        partition.append(batch(1), now_ms=0)
    assert refusal.value.error is Errors.NOT_ENOUGH_REPLICAS
    partition.stop_leading()
    assert partition.append_refusal(1) is Errors.NOT_LEADER_OR_FOLLOWER
