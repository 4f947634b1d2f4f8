"""Leaders and followers together: what must hold whatever happens to a broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kaa.log.append import append_as_follower
from kaa.wire.errors import Errors
from tests.unit.log.batches import batch
from tests.unit.replication.brokers import LAG_MS, Brokers, is_replicated, until

if TYPE_CHECKING:
    from kaa.log.log import UnifiedLog


def content(log: UnifiedLog) -> bytes:
    """All batches of a log, over its segments."""
    return b"".join(segment.file.read(segment.size, 0) for segment in log.segments)


def log(brokers: Brokers, broker_id: int, number: int = 0) -> UnifiedLog:
    return brokers[broker_id].partition("t", number).online_log()


def are_equal(brokers: Brokers, *broker_ids: int, number: int = 0) -> bool:
    logs = [log(brokers, broker_id, number) for broker_id in broker_ids]
    ends = {(each.log_end_offset, each.high_watermark) for each in logs}
    return len(ends) == 1 and all(each.high_watermark == each.log_end_offset for each in logs)


def test_followers_copy_and_the_high_watermark_follows() -> None:
    async def story() -> None:
        brokers = Brokers(3)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1, 2]])
            for _ in range(10):
                brokers.produce(3)
            partition, end = brokers.produce(2)
            await until(lambda: partition.replication_outcome(end, 0) is Errors.NONE)
            await until(lambda: are_equal(brokers, 0, 1, 2))
            assert content(log(brokers, 1)) == content(log(brokers, 0)) == content(log(brokers, 2))
            assert log(brokers, 1).leader_epochs.entries == log(brokers, 0).leader_epochs.entries

    asyncio.run(story())


def test_an_append_is_acknowledged_without_waiting_for_a_poll() -> None:
    async def story() -> None:
        brokers = Brokers(3)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1, 2]])
            partition, end = brokers.produce()
            await until(lambda: is_replicated(partition, end))
            loop = asyncio.get_running_loop()
            began = loop.time()
            for _ in range(20):
                partition, end = brokers.produce()
                await until(partial(is_replicated, partition, end))
            # Each would take most of the 100 ms that a fetch may wait.
            assert loop.time() - began < 1

    asyncio.run(story())


def test_a_dead_follower_leaves_the_set_and_comes_back() -> None:
    async def story() -> None:
        brokers = Brokers(3)
        async with brokers.running() as tasks:
            brokers.controller.create("t", replicas=[[0, 1, 2]])
            partition, end = brokers.produce(5)
            await until(lambda: is_replicated(partition, end))
            brokers[2].kill()
            partition, end = brokers.produce(5)
            await until(lambda: log(brokers, 1).log_end_offset == end)
            assert not is_replicated(partition, end)
            brokers.clock.skipped_ms += LAG_MS + 1
            for _ in brokers[0].manager.shrink_isr():
                pass
            # Broker 1 waited in a fetch, and is at the end of the log.
            await until(lambda: is_replicated(partition, end))
            assert partition.isr == (0, 1)
            brokers.controller.fence(2)
            brokers.restart(2, tasks)
            await until(lambda: partition.isr == (0, 1, 2))
            await until(lambda: are_equal(brokers, 0, 1, 2))

    asyncio.run(story())


def test_a_new_leader_has_all_that_was_acknowledged() -> None:
    async def story() -> None:
        brokers = Brokers(3)
        async with brokers.running() as tasks:
            brokers.controller.create("t", replicas=[[0, 1, 2]])
            partition, end = brokers.produce(5)
            await until(lambda: is_replicated(partition, end))
            # The leader goes on alone, and what it writes is nowhere else.
            for other in (1, 2):
                brokers[0].cut_off.add(other)
            await asyncio.sleep(0.15)
            brokers.produce(7)
            brokers.fail(0)
            brokers[0].cut_off.clear()
            assert brokers.lead(0).id == 1
            partition, new_end = brokers.produce(1)
            assert new_end == end + 1
            brokers.produce(1)
            await until(lambda: is_replicated(partition, end + 2))
            brokers.restart(0, tasks)
            await until(lambda: len(partition.isr) == 3)
            await until(lambda: are_equal(brokers, 0, 1, 2))
            assert content(log(brokers, 0)) == content(log(brokers, 1))
            assert log(brokers, 0).leader_epochs.entries == log(brokers, 1).leader_epochs.entries

    asyncio.run(story())


def test_damage_on_the_way_is_fetched_again() -> None:
    async def story() -> None:
        brokers = Brokers(2)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1]])
            damaged: list[int] = []

            def damage(frame: bytes) -> bytes:
                if b"vvvv" in frame and len(damaged) < 2:
                    damaged.append(len(frame))
                    return frame.replace(b"vvvv", b"vvvw", 1)
                return frame

            brokers.on_the_way = damage
            partition, end = brokers.produce(5)
            await until(lambda: is_replicated(partition, end))
            assert len(damaged) == 2
            (fetcher,) = brokers[1].fetchers.fetchers.values()
            assert fetcher.machine.damaged_count == 2
            assert any("damaged records" in text for text in brokers[1].reports)

    asyncio.run(story())


def test_a_follower_of_a_log_that_begins_inside_of_a_batch() -> None:
    async def story() -> None:
        brokers = Brokers(2)
        brokers[1].is_running = False
        async with brokers.running() as tasks:
            brokers.controller.create("t", replicas=[[0, 1]])
            brokers.fail(1)
            partition, _ = brokers.produce(10)
            brokers.produce(10)
            await until(lambda: is_replicated(partition, 20))
            partition.online_log().increment_log_start_offset(15)
            brokers[1].files = type(brokers[1].files)()
            brokers.restart(1, tasks)
            await until(lambda: partition.isr == (0, 1))
            copy = log(brokers, 1)
            await until(lambda: copy.log_start_offset == 15)
            assert copy.log_end_offset == 20
            assert copy.segments.first.base_offset == 10

    asyncio.run(story())


def test_a_follower_of_a_log_with_gaps() -> None:
    """Compaction has removed batches before the follower came, also the first ones."""

    async def story() -> None:
        brokers = Brokers(2)
        async with brokers.running() as tasks:
            brokers.controller.create("t", replicas=[[0, 1]])
            brokers.fail(1)
            leader = brokers[0].partition()
            for base_offset in (7, 20, 500):
                append_as_follower(
                    leader.online_log(), batch(2, base_offset=base_offset), leader_epoch=0, now_ms=0
                )
            brokers.restart(1, tasks)
            _, end = brokers.produce(3)
            assert end == 505
            await until(lambda: are_equal(brokers, 0, 1))
            assert content(log(brokers, 1)) == content(log(brokers, 0))

    asyncio.run(story())


def test_a_follower_that_lost_its_disk_is_not_taken_for_its_former_self() -> None:
    async def story() -> None:
        brokers = Brokers(3)
        async with brokers.running() as tasks:
            brokers.controller.create("t", replicas=[[0, 1, 2]])
            partition, end = brokers.produce(5)
            await until(lambda: is_replicated(partition, end))
            brokers.fail(2)
            brokers[2].files = type(brokers[2].files)()
            assert partition.leadership is not None
            brokers.restart(2, tasks)
            assert partition.leadership.replicas[2].end_offset == -1
            await until(lambda: partition.isr == (0, 1, 2))
            await until(lambda: are_equal(brokers, 0, 1, 2))
            assert content(log(brokers, 2)) == content(log(brokers, 0))

    asyncio.run(story())


def test_partitions_that_fail_do_not_stop_others() -> None:
    async def story() -> None:
        brokers = Brokers(2)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1], [0, 1], [0, 1]])
            await until(lambda: bool(brokers[1].fetchers.fetchers))
            broken = brokers[1].partition("t", 1).online_log()
            # Nothing fits.
            broken.update_config(replace(broken.config, segment_bytes=1))
            for number in range(3):
                partition, end = brokers.produce(2, number)
                if number != 1:
                    await until(partial(is_replicated, partition, end))
            assert any("t-1: replication stopped" in text for text in brokers[1].reports)

    asyncio.run(story())


def test_records_of_a_leader_that_others_left_behind_are_cut_by_epochs() -> None:
    """Both sides have epochs that the other does not know."""

    async def story() -> None:
        brokers = Brokers(3, unclean_leader_election_enable="true")
        async with brokers.running() as tasks:
            brokers.controller.create("t", replicas=[[0, 1, 2]])
            partition, end = brokers.produce(5)
            await until(lambda: is_replicated(partition, end))
            brokers[0].cut_off |= {1, 2}
            await asyncio.sleep(0.15)
            brokers.produce(3)
            brokers.fail(0)
            brokers[1].cut_off |= {0, 2}
            brokers.produce(4)
            brokers.fail(1)
            assert brokers.lead(0).id == 2
            partition, end = brokers.produce(1)
            for broker in brokers.brokers:
                broker.cut_off.clear()
            brokers.restart(1, tasks)
            brokers.restart(0, tasks)
            await until(lambda: len(partition.isr) == 3)
            await until(lambda: are_equal(brokers, 0, 1, 2))
            assert content(log(brokers, 0)) == content(log(brokers, 1)) == content(log(brokers, 2))
            entries = [log(brokers, each).leader_epochs.entries for each in range(3)]
            assert entries[0] == entries[1] == entries[2]

    asyncio.run(story())


def test_a_leader_whose_log_has_moved_on_beyond_the_follower() -> None:
    async def story() -> None:
        brokers = Brokers(2)
        async with brokers.running() as tasks:
            brokers.controller.create("t", replicas=[[0, 1]])
            partition, end = brokers.produce(5)
            await until(lambda: is_replicated(partition, end))
            brokers.fail(1)
            for _ in range(3):
                brokers.produce(5)
            await until(lambda: is_replicated(partition, 20))
            partition.online_log().increment_log_start_offset(15)
            brokers.restart(1, tasks)
            await until(lambda: partition.isr == (0, 1))
            copy = log(brokers, 1)
            assert (copy.log_start_offset, copy.log_end_offset) == (15, 20)

    asyncio.run(story())


def test_followers_take_over_the_start_of_the_log() -> None:
    async def story() -> None:
        brokers = Brokers(3)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1, 2]])
            partition, end = brokers.produce(5)
            await until(lambda: is_replicated(partition, end))
            await until(lambda: partition.low_watermark == 0)
            partition.online_log().increment_log_start_offset(3)
            await until(lambda: partition.low_watermark == 3)
            assert log(brokers, 1).log_start_offset == log(brokers, 2).log_start_offset == 3

    asyncio.run(story())


def test_the_set_stays_as_it_is_without_a_controller() -> None:
    async def story() -> None:
        brokers = Brokers(2)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1]])
            partition, end = brokers.produce(5)
            await until(lambda: is_replicated(partition, end))
            brokers.without_controller.add(0)
            brokers[0].cut_off.add(1)
            await asyncio.sleep(0.15)
            partition, end = brokers.produce(5)
            brokers.clock.skipped_ms += LAG_MS + 1
            for _ in brokers[0].manager.shrink_isr():
                pass
            await asyncio.sleep(0.1)
            # What the controller has not committed is not acknowledged.
            assert not is_replicated(partition, end)
            assert len(partition.isr) == 2
            brokers.without_controller.clear()
            await until(lambda: partition.isr == (0,))
            assert is_replicated(partition, end)

    asyncio.run(story())


def test_followers_compact_their_own_logs() -> None:
    """Before they lead, or the log of one that never does would grow without end."""

    async def story() -> None:
        brokers = Brokers(2)
        async with brokers.running():
            configs: dict[str, str | None] = {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0.01",
            }
            brokers.controller.create("t", replicas=[[0, 1]], configs=configs)
            for number in range(12):
                partition, end = brokers.produce([(b"key", b"%d" % number)])
                await until(partial(is_replicated, partition, end))
            await until(lambda: are_equal(brokers, 0, 1))
            follower, logs = log(brokers, 1), brokers[1].logs
            follower.roll(0)
            before = follower.size_in_bytes
            logs.cleaner.config = replace(logs.config, log_cleaner_enable=True)
            for job in logs.cleaner.work(10**12):
                if job is not None:
                    job.run()
                    job.done(0)
            assert follower.size_in_bytes < before / 2
            assert follower.log_end_offset == 12

    asyncio.run(story())


def test_many_partitions_and_small_batches() -> None:
    async def story() -> None:
        brokers = Brokers(3)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1, 2], [1, 2, 0], [2, 0, 1]] * 4)
            for _ in range(50):
                for number in range(12):
                    brokers.produce(2, number)
            for number in range(12):
                partition = brokers.lead(number).partition("t", number)
                await until(partial(is_replicated, partition, 100))
            for number in range(12):
                await until(partial(are_equal, brokers, 0, 1, 2, number=number))
                assert content(log(brokers, 0, number)) == content(log(brokers, 1, number))

    asyncio.run(story())
