from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from kaa.replication.isr_changes import IsrChanges
from kaa.wire.errors import Errors
from kaa.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from kaa.wire.messages.metadata_topics import TopicRecord
from tests.unit.log.batches import batch
from tests.unit.replication.support import NODE, TOPIC_ID, Replicas, partition

if TYPE_CHECKING:
    from kaa.controller.port import ControllerPort, ControllerRequestContext
    from kaa.replication.partition import Partition

LAG_MS = 30_000


class Controller:
    """Answers each request with the next of its answers: an error, or as it was asked."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.answers: list[Errors | Exception] = []
        self.partition_errors: dict[int, Errors] = {}

    async def submit(
        self, request: AlterPartitionRequest, context: ControllerRequestContext
    ) -> AlterPartitionResponse:
        assert context.api_version == 3
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else Errors.NONE
        if isinstance(answer, Exception):
            raise answer
        if answer is not Errors.NONE:
            return AlterPartitionResponse(error_code=answer, topics=[])
        return AlterPartitionResponse(
            topics=[
                ResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        ResponsePartitionData(
                            partition_index=asked.partition_index,
                            error_code=self.partition_errors.get(
                                asked.partition_index, Errors.NONE
                            ),
                            leader_id=NODE,
                            leader_epoch=asked.leader_epoch,
                            isr=[each.broker_id for each in asked.new_isr_with_epochs],
                            partition_epoch=asked.partition_epoch + 1,
                        )
                        for asked in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


class Case:
    """Three partitions whose other replicas have fallen behind."""

    def __init__(self) -> None:
        self.controller = Controller()
        self.reports: list[str] = []
        self.changes = IsrChanges(
            NODE,
            lambda: 77,
            cast("ControllerPort", self.controller),
            self.reports.append,
        )
        self.now = 0
        self.replicas = Replicas(propose=self.changes.propose, monotonic_ms=lambda: self.now)
        self.replicas.replay(
            TopicRecord(name="t", topic_id=TOPIC_ID),
            *(partition((NODE, 2, 3), number=number) for number in range(3)),
        )
        self.partitions: list[Partition] = sorted(
            self.replicas.manager, key=lambda each: each.number
        )
        self.now = LAG_MS + 1

    def shrink(self) -> None:
        for _ in self.replicas.manager.shrink_isr():
            pass

    def isrs(self) -> list[tuple[int, ...]]:
        return [each.isr for each in self.partitions]


def test_one_request_for_many_partitions() -> None:
    async def main() -> None:
        case = Case()
        case.shrink()
        assert await case.changes.send_next()
        (request,) = case.controller.requests
        assert (request.broker_id, request.broker_epoch) == (NODE, 77)
        (topic,) = request.topics
        assert sorted(each.partition_index for each in topic.partitions) == [0, 1, 2]
        assert case.isrs() == [(NODE,)] * 3
        assert await case.changes.send_next()
        assert len(case.controller.requests) == 1

    asyncio.run(main())


def test_the_high_watermark_moves_with_the_answer() -> None:
    async def main() -> None:
        case = Case()
        first = case.partitions[0]
        first.append(batch(4), now_ms=0)
        case.shrink()
        assert first.online_log().high_watermark == 0
        await case.changes.send_next()
        assert first.online_log().high_watermark == 4

    asyncio.run(main())


def test_what_failed_as_a_whole_is_sent_again() -> None:
    async def main() -> None:
        case = Case()
        case.controller.answers = [
            ConnectionError("gone"),
            Errors.STALE_BROKER_EPOCH,
            ZeroDivisionError("unexpected"),
        ]
        case.shrink()
        for _ in range(3):
            assert not await case.changes.send_next()
        assert case.isrs() == [(NODE, 2, 3)] * 3
        assert await case.changes.send_next()
        assert case.isrs() == [(NODE,)] * 3
        reasons = [text.rpartition(" ")[2] for text in case.reports]
        assert reasons == ["gone", "STALE_BROKER_EPOCH", "unexpected"]

    asyncio.run(main())


def test_single_refusals() -> None:
    async def main() -> None:
        case = Case()
        case.controller.partition_errors = {
            0: Errors.INELIGIBLE_REPLICA,
            1: Errors.UNKNOWN_SERVER_ERROR,
            2: Errors.FENCED_LEADER_EPOCH,
        }
        case.shrink()
        assert not await case.changes.send_next()
        proposals = [each.leadership and each.leadership.proposal for each in case.partitions]
        assert [proposal is None for proposal in proposals] == [True, False, False]
        # Only the one whose outcome is unknown is asked for again.
        case.controller.partition_errors = {}
        assert await case.changes.send_next()
        (topic,) = case.controller.requests[-1].topics
        assert sorted(each.partition_index for each in topic.partitions) == [1]

    asyncio.run(main())


def test_a_proposal_that_metadata_has_overtaken_is_not_sent() -> None:
    async def main() -> None:
        case = Case()
        case.shrink()
        newer = partition((NODE, 2, 3), number=1)
        newer.partition_epoch = 7
        case.replicas.replay(newer)
        await case.changes.send_next()
        (topic,) = case.controller.requests[0].topics
        assert sorted(each.partition_index for each in topic.partitions) == [0, 2]

    asyncio.run(main())


def test_the_driver_sends_what_comes() -> None:
    async def main() -> None:
        case = Case()
        case.controller.answers = [ConnectionError("gone")]
        async with asyncio.TaskGroup() as tasks:
            duty = tasks.create_task(case.changes.run())
            case.shrink()
            async with asyncio.timeout(60):
                while case.isrs() != [(NODE,)] * 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            duty.cancel()
        assert case.changes.request_count == 2

    asyncio.run(main())
