from __future__ import annotations

import asyncio

import pytest

from kaa.limits import MOVES_LOOKED_AT_PER_TURN_MAX
from kaa.log.append import append_as_follower, append_as_leader
from kaa.log.segment import SegmentRegion
from kaa.log.truncation import truncate_to
from kaa.replication.follower.link import LeaderOffsets, LocalStart, ReplicaFetchBounds
from kaa.replication.follower.local import LocalLeader
from kaa.replication.follower.session import FetchPlan, FetchPosition
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import FetchResponse, PartitionData
from kaa.wire.primitives import UUID_ZERO
from tests.unit.log.batches import batch
from tests.unit.replication.movers import (
    alter,
    create,
    log_of,
    new_files,
    node,
    other,
    throttle,
)

BOUNDS = ReplicaFetchBounds(wait_ms=20, bytes_min=1, bytes_max=1_000_000)


def only(response: FetchResponse) -> PartitionData:
    ((found,),) = [topic.partitions for topic in response.responses]
    return found


async def never(_: object) -> bool:
    return False


async def at_once() -> None:
    """Instead of a rest."""


def test_a_leader_in_the_same_process_answers_like_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            partition = await create(broker)
            for epoch, size in ((0, 5), (0, 5), (3, 5)):
                append_as_leader(log_of(broker), batch(size), leader_epoch=epoch, now_ms=0)
            moves = broker.services.replicas.moves
            assert moves is not None
            # The move does not end.
            monkeypatch.setattr(moves, "advance", never)
            key = (partition.topic_id, 0)
            link = LocalLeader(moves)

            async def ask(offset: int, epoch: int = -1, start: int = 0) -> FetchResponse:
                position = FetchPosition(offset, 0, epoch, start, 1_000)
                return await link.fetch(FetchPlan(0, 0, {key: position}, []), BOUNDS)

            assert only(await ask(0)).error_code == Errors.REPLICA_NOT_AVAILABLE
            assert await link.offsets("t", 0, 0) is Errors.REPLICA_NOT_AVAILABLE
            assert alter(broker, other(log_of(broker))) is Errors.NONE
            found = only(await ask(0))
            assert len(found.records or b"") == log_of(broker).size_in_bytes
            assert (await ask(15, 3)).responses == []
            assert only(await ask(99)).error_code == Errors.OFFSET_OUT_OF_RANGE
            diverging = only(await ask(12, 0)).diverging_epoch
            assert diverging is not None
            assert (diverging.epoch, diverging.end_offset) == (0, 10)
            assert await link.offsets("t", 0, 0) == LeaderOffsets(0, 15)
            partition.advance_high_watermark()
            log_of(broker).increment_log_start_offset(5)
            # The start is passed on, though there is nothing to copy.
            assert only(await ask(15, 3)).log_start_offset == 5
            truncate_to(log_of(broker), 10, 0)
            append_as_leader(log_of(broker), batch(9), leader_epoch=0, now_ms=0)
            assert only(await ask(15, 0)).error_code == Errors.OFFSET_OUT_OF_RANGE
            assert await link.offsets("t", 0, 0) == LeaderOffsets(5, 10)
            assert only(await ask(10, 0)).error_code == Errors.NONE
            assert await link.offsets("t", 0, 0) == LeaderOffsets(5, 19)
            found_start = await link.local_start("t", 0, 0, after_tier=False)
            assert found_start == LocalStart(5, -1, 5)

    asyncio.run(main())


def test_records_are_read_into_one_buffer_but_for_a_batch_that_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kaa.replication.follower.local.MOVE_PIECE_BYTES", 1_000)

    async def main() -> None:
        async with node(new_files()) as broker:
            partition = await create(broker)
            contents = [
                bytes(batch(1, value_bytes=size, base_offset=offset, leader_epoch=0))
                for offset, size in enumerate((500, 600, 5_000, 700))
            ]
            for content in contents:
                append_as_follower(log_of(broker), content, leader_epoch=0, now_ms=0)
            moves = broker.services.replicas.moves
            assert moves is not None
            monkeypatch.setattr(moves, "advance", never)
            assert alter(broker, other(log_of(broker))) is Errors.NONE
            link, key = LocalLeader(moves), (partition.topic_id, 0)
            buffers = set()
            for offset, content in enumerate(contents):
                plan = FetchPlan(0, 0, {key: FetchPosition(offset, 0, 0, 0, 1_000)}, [])
                records = only(await link.fetch(plan, BOUNDS)).records
                assert records == content
                buffers.add(id(records.obj))
            assert len(buffers) == 2

    asyncio.run(main())


def test_a_slow_move_copies_no_more_at_once_than_it_may_in_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            partition = await create(broker)
            content = bytes(batch(1, value_bytes=500, leader_epoch=0))
            for offset in range(8):
                one = batch(1, value_bytes=500, base_offset=offset, leader_epoch=0)
                append_as_follower(log_of(broker), one, leader_epoch=0, now_ms=0)
            moves = broker.services.replicas.moves
            assert moves is not None
            monkeypatch.setattr(moves, "advance", never)
            monkeypatch.setattr(moves, "_rest", at_once)
            assert alter(broker, other(log_of(broker))) is Errors.NONE
            link, key = LocalLeader(moves), (partition.topic_id, 0)
            plan = FetchPlan(0, 0, {key: FetchPosition(0, 0, 0, 0, 100_000)}, [])
            # What is larger than that is copied too, one batch after the other.
            for rate, count in ((None, 8), (3 * len(content), 3), (1, 1)):
                await throttle(broker, rate)
                records = only(await link.fetch(plan, BOUNDS)).records
                assert records is not None
                assert len(records) == count * len(content)

    asyncio.run(main())


@pytest.mark.parametrize("count", [0, 30])
def test_records_that_are_cut_while_they_are_read_are_not_passed_on(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source follows another leader, and may have others in their place by then."""

    async def main() -> None:
        async with node(new_files()) as broker:
            partition = await create(broker)
            log = log_of(broker)
            for _ in range(3):
                append_as_leader(log, batch(5, value_bytes=100), leader_epoch=0, now_ms=0)
            moves = broker.services.replicas.moves
            assert moves is not None
            read = moves.read

            async def cut_and_read(region: SegmentRegion, buffer: memoryview) -> None:
                truncate_to(log, 5, 0)
                for _ in range(count):
                    append_as_leader(log, batch(1, value_bytes=40), leader_epoch=1, now_ms=0)
                await read(region, buffer)

            monkeypatch.setattr(moves, "advance", never)
            monkeypatch.setattr(moves, "read", cut_and_read)
            assert alter(broker, other(log)) is Errors.NONE
            position = FetchPosition(0, 0, -1, 0, 1_000)
            plan = FetchPlan(0, 0, {(partition.topic_id, 0): position}, [])
            found = only(await LocalLeader(moves).fetch(plan, BOUNDS))
            assert found.error_code == Errors.REPLICA_NOT_AVAILABLE
            assert not found.records

    asyncio.run(main())


def test_others_have_turns_while_many_moves_are_looked_at() -> None:
    """Of which each waits, such as for the controller; every append has them looked at again."""
    looks: list[int] = []

    class Waiting(LocalLeader):
        async def _partition(self, *_: object) -> None:
            looks[-1] += 1

    async def tick() -> None:
        while True:
            looks.append(0)
            await asyncio.sleep(0)

    async def main() -> None:
        async with node(new_files()) as broker:
            moves = broker.services.replicas.moves
            assert moves is not None
            position = FetchPosition(0, 0, -1, 0, 1_000)
            positions = {(UUID_ZERO, number): position for number in range(1_000)}
            async with asyncio.TaskGroup() as tasks:
                ticks = tasks.create_task(tick())
                await asyncio.sleep(0)
                await Waiting(moves).fetch(FetchPlan(0, 0, positions, []), BOUNDS)
                ticks.cancel()

    asyncio.run(main())
    assert sum(looks) >= 1_000
    assert max(looks) <= 2 * MOVES_LOOKED_AT_PER_TURN_MAX
