from __future__ import annotations

import asyncio

import pytest

from kaa.replication.follower.link import FetchBounds, LeaderOffsets, LocalStart
from kaa.replication.follower.local import LocalLeader
from kaa.replication.follower.session import FetchPlan, FetchPosition
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import FetchResponse, PartitionData
from tests.unit.log.batches import batch
from tests.unit.replication.movers import alter, create, log_of, new_files, node, other

BOUNDS = FetchBounds(wait_ms=20, bytes_min=1, bytes_max=1_000_000)


def only(response: FetchResponse) -> PartitionData:
    ((found,),) = [topic.partitions for topic in response.responses]
    return found


async def never(_: object) -> bool:
    return False


def test_a_leader_in_the_same_process_answers_like_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            partition = await create(broker)
            for epoch, size in ((0, 5), (0, 5), (3, 5)):
                log_of(broker).append(batch(size), leader_epoch=epoch, now_ms=0)
            moves = broker.services.replicas.moves
            assert moves is not None
            # The move does not end.
            monkeypatch.setattr(moves, "caught_up", never)
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
            log_of(broker).truncate_to(10, 0)
            log_of(broker).append(batch(9), leader_epoch=0, now_ms=0)
            assert only(await ask(15, 0)).error_code == Errors.OFFSET_OUT_OF_RANGE
            assert await link.offsets("t", 0, 0) == LeaderOffsets(5, 10)
            assert only(await ask(10, 0)).error_code == Errors.NONE
            assert await link.offsets("t", 0, 0) == LeaderOffsets(5, 19)
            found_start = await link.local_start("t", 0, 0, behind_tier=False)
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
                log_of(broker).append_as_follower(content, leader_epoch=0, now_ms=0)
            moves = broker.services.replicas.moves
            assert moves is not None
            monkeypatch.setattr(moves, "caught_up", never)
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
