"""The whole controller on a simulated disk: answers wait for commits, failures roll back."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from kaa.controller.formatting import FormatRequest, plan_format
from kaa.controller.framing import decode_record
from kaa.controller.image import ClusterImage, Delta
from kaa.controller.local import LocalController
from kaa.controller.result import Result
from kaa.controller.state import RequestContext
from kaa.limits import METADATA_RECORDS_PER_PIECE
from kaa.log.dirs import LogDirectory
from kaa.log.errors import StorageError
from kaa.log.sim_files import Fault, SimFiles
from kaa.quorum import Endpoint, QuorumConfig, ReplicaKey, VoterNode, VoterSet
from kaa.quorum.node import KRAFT_VERSIONS, NotAVoterError, QuorumNode
from kaa.quorum.snapshots import parse_snapshot_name
from kaa.records.record import iter_records
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreateTopicsRequest
from kaa.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from kaa.wire.messages.metadata_cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from kaa.wire.messages.metadata_topics import TopicRecord
from kaa.wire.schema import MetadataRecord
from tests.unit.controller.cluster import (
    CLUSTER_ID,
    NODE_ID,
    Cluster,
    broker_config,
    topic,
    uuid,
)
from tests.unit.quorum.disk_replica import (
    FOLDER,
    ROOT,
    FixedClock,
    HeldExecutor,
    InlineExecutor,
    directory_id,
    new_disk,
    settle,
)

ENDPOINT = Endpoint("CONTROLLER", "127.0.0.1", 9093)
STATIC = VoterSet.of([VoterNode(ReplicaKey(NODE_ID), (ENDPOINT,))])


class Node:
    """A controller, and what it published."""

    def __init__(
        self,
        files: SimFiles,
        *,
        executor: Executor | None = None,
        voters: VoterSet = STATIC,
        report: Callable[[str], None] = lambda _: None,
        **settings: str,
    ) -> None:
        self.files = files
        self.published: list[Delta] = []
        self.clock = FixedClock()
        self.controller = LocalController(
            config=broker_config(**settings),
            node=QuorumNode(
                CLUSTER_ID,
                NODE_ID,
                directory_id(NODE_ID),
                "CONTROLLER",
                (ENDPOINT,),
                voters,
                QuorumConfig(),
            ),
            directory=LogDirectory(files, ROOT),
            executor=executor or InlineExecutor(),
            clock=self.clock,
            random=Random(7),
            on_image=self._on_image,
            report=report,
        )

    def _on_image(self, image: ClusterImage, delta: Delta) -> None:
        assert image is self.controller.image
        self.published.append(delta)

    async def register(self) -> int:
        context = RequestContext(4)
        registration = Cluster(0).registration(NODE_ID)
        response = await self.controller.register_broker(registration, context)
        assert response.error_code == Errors.NONE
        beat = BrokerHeartbeatRequest(
            broker_id=NODE_ID,
            broker_epoch=response.broker_epoch,
            current_metadata_offset=self.controller.committed_offset,
        )
        assert not (await self.controller.heartbeat(beat, context)).is_fenced
        return response.broker_epoch

    async def create(self, *names: str, **facts: Any) -> list[Errors]:
        request = CreateTopicsRequest(topics=[topic(name, **facts) for name in names])
        response = await self.controller.create_topics(request, RequestContext(7))
        return [Errors.of(each.error_code) for each in response.topics]

    def records(self) -> list[MetadataRecord]:
        """Every record of the log that is no control record."""
        log = self.controller.driver.log
        return [
            decode_record(record.value or b"")[0]
            for batch in log.batches(log.start_offset(), log.end().offset)
            if not batch.is_control
            for record in iter_records(batch)
        ]


@asynccontextmanager
async def running(files: SimFiles, **options: Any) -> AsyncIterator[Node]:
    node = Node(files, **options)
    async with asyncio.timeout(10):
        await node.controller.start()
        yield node
        await node.controller.stop()


async def started(files: SimFiles, **options: Any) -> Node:
    """A node that will not stop by itself; for disks that are taken away from it."""
    node = Node(files, **options)
    await node.controller.start()
    return node


def image_of(image: ClusterImage) -> dict[str, object]:
    """Everything an image holds, to compare."""
    facts = {name: value for name, value in vars(image).items() if not name.startswith("_")}
    facts["topics"] = {name: (found.id, found.partitions) for name, found in image.topics.items()}
    del facts["topics_by_id"]
    return facts


def test_a_new_cluster_gets_its_bootstrap_records_in_a_transaction() -> None:
    async def scenario() -> None:
        async with running(new_disk()) as node:
            records = node.records()
            assert isinstance(records[0], BeginTransactionRecord)
            assert isinstance(records[-1], EndTransactionRecord)
            assert node.controller.image.features["metadata.version"] == 30
            assert node.controller.image.configs[4, ""] == {"min.insync.replicas": "1"}
            assert len(node.published) == 1
            assert "metadata.version" in node.published[0].features

    asyncio.run(scenario())


def test_formatted_features_are_used() -> None:
    async def scenario() -> None:
        files = new_disk()
        request = FormatRequest(
            CLUSTER_ID, NODE_ID, [ROOT], ROOT, is_quorum_dynamic=False, levels={"group.version": 0}
        )
        plan = plan_format(files, request, lambda: directory_id(NODE_ID))
        assert list(plan.run(files, 0, "now")) == [ROOT]
        async with running(files) as node:
            assert "group.version" not in node.controller.image.features
            assert node.controller.image.features["share.version"] == 1

    asyncio.run(scenario())


def test_a_restart_finds_everything_again() -> None:
    async def scenario() -> None:
        files = new_disk()
        async with running(files) as node:
            await node.register()
            assert await node.create("a", "b", partitions=3) == [Errors.NONE] * 2
            before = image_of(node.controller.image)
        async with running(files.restart("lost")) as again:
            assert image_of(again.controller.image) == before
            assert len(again.published) == 1
            assert len(again.published[0].partitions) == 6
            # The bootstrap records are not written again.
            begins = [each for each in again.records() if isinstance(each, BeginTransactionRecord)]
            assert len(begins) == 1

    asyncio.run(scenario())


def test_snapshot_and_tail_equal_a_full_replay() -> None:
    async def scenario() -> None:
        node = await started(new_disk())
        await node.register()
        await node.create("a", "b", partitions=2)
        assert node.controller._snapshotter is not None
        assert await node.controller._snapshotter.take()
        assert not await node.controller._snapshotter.take()
        await node.create("c")
        update = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
        await node.controller.update_features(
            UpdateFeaturesRequest(feature_updates=[update]), RequestContext(2)
        )
        expected = image_of(node.controller.image)
        with_snapshot = await started(node.files.restart("kill"))
        assert with_snapshot.controller.driver.applied_offset > 0
        assert image_of(with_snapshot.controller.image) == expected
        disk = with_snapshot.files.restart("kill")
        for name in disk.list_directory(FOLDER):
            if parse_snapshot_name(name) is not None:
                disk.unlink(f"{FOLDER}/{name}")
        from_the_log_alone = await started(disk)
        assert image_of(from_the_log_alone.controller.image) == expected

    asyncio.run(scenario())


def test_answers_leave_when_the_records_are_on_disk() -> None:
    async def scenario() -> None:
        executor = HeldExecutor()
        node = Node(new_disk(), executor=executor)
        start = asyncio.ensure_future(node.controller.start())  # noqa: TID251

        async def work() -> None:
            await settle()
            while executor.jobs:
                executor.work()
                await settle()

        await work()
        await start
        registration = asyncio.ensure_future(node.register())  # noqa: TID251
        while not registration.done():
            await work()
        first = asyncio.ensure_future(node.create("a"))  # noqa: TID251
        second = asyncio.ensure_future(node.create("a"))  # noqa: TID251
        third = asyncio.ensure_future(node.create("b"))  # noqa: TID251
        await settle()
        # The second knows of the first, though nothing is committed, and waits for it.
        assert [each.done() for each in (first, second, third)] == [False] * 3
        assert node.controller.image.topics == {}
        assert len(executor.jobs) == 1
        executor.work()
        await settle()
        assert (first.done(), second.done(), third.done()) == (True, True, False)
        assert list(node.controller.image.topics) == ["a"]
        await work()
        assert [await each for each in (first, second, third)] == [
            [Errors.NONE],
            [Errors.TOPIC_ALREADY_EXISTS],
            [Errors.NONE],
        ]

    asyncio.run(scenario())


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failed_append_answers_and_forgets_what_was_not_written(operation: Any) -> None:
    async def scenario() -> None:
        files = new_disk()
        node = Node(files)
        await node.controller.start()
        run = asyncio.ensure_future(node.controller.run())  # noqa: TID251
        await node.register()
        await node.create("a")
        files.faults.append(Fault(operation, ".log", errno.EIO))
        assert await node.create("b") == [Errors.NOT_CONTROLLER]
        assert list(node.controller.image.topics) == ["a"]
        assert await node.create("c") == [Errors.NOT_CONTROLLER]
        with pytest.raises(StorageError):
            await run
        await node.controller.stop()
        assert files.open_handles == 0
        again = Node(files.restart("lost"))
        await again.controller.start()
        assert list(again.controller.image.topics) == ["a"]

    asyncio.run(scenario())


MANY = 5 * METADATA_RECORDS_PER_PIECE


def test_a_long_decision_leaves_turns_for_others_but_not_for_other_decisions() -> None:
    async def scenario() -> None:
        files = new_disk()
        async with running(files) as node:
            await node.register()
            turns = 0
            creation = asyncio.ensure_future(node.create("a", partitions=MANY))  # noqa: TID251
            again = asyncio.ensure_future(node.create("a", partitions=MANY))  # noqa: TID251
            while not creation.done():
                await asyncio.sleep(0)
                turns += 1
                # A topic is there as a whole, or not at all.
                topics = node.controller.image.topics.values()
                assert [len(found.partitions) for found in topics] in ([], [MANY])
            assert turns > 10
            assert await creation == [Errors.NONE]
            assert await again == [Errors.TOPIC_ALREADY_EXISTS]
            image = image_of(node.controller.image)
        async with running(files) as node:
            found = image_of(node.controller.image)
            assert found["topics"] == image["topics"]

    asyncio.run(scenario())


def test_who_gives_up_on_a_long_decision_leaves_it_whole() -> None:
    async def scenario() -> None:
        async with running(new_disk()) as node:
            await node.register()
            for pauses in range(3, 16, 3):
                name = f"t{pauses}"
                creation = asyncio.ensure_future(node.create(name, partitions=MANY))  # noqa: TID251
                for _ in range(pauses):
                    await asyncio.sleep(0)
                creation.cancel()
                await asyncio.wait([creation])
                assert await node.create(name) == [Errors.TOPIC_ALREADY_EXISTS]
                assert len(node.controller.image.topics[name].partitions) == MANY

    asyncio.run(scenario())


def test_leadership_lost_within_a_long_decision() -> None:
    async def scenario() -> None:
        async with running(new_disk()) as node:
            await node.register()
            creation = asyncio.ensure_future(node.create("a", partitions=MANY))  # noqa: TID251
            for _ in range(4):
                await asyncio.sleep(0)
            assert not creation.done()
            node.controller.follow(2, None)
            assert await creation == [Errors.NOT_CONTROLLER]
            assert node.controller.image.topics == {}

    asyncio.run(scenario())


def test_lost_leadership_drops_the_newest_image() -> None:
    """The committed image is what the next leadership starts from."""

    async def scenario() -> None:
        executor = HeldExecutor()
        node = Node(new_disk(), executor=executor)
        start = asyncio.ensure_future(node.controller.start())  # noqa: TID251
        while not start.done():
            await settle()
            if executor.jobs:
                executor.work()
        registration = asyncio.ensure_future(node.register())  # noqa: TID251
        while not registration.done():
            await settle()
            if executor.jobs:
                executor.work()
        creation = asyncio.ensure_future(node.create("a"))  # noqa: TID251
        await settle()
        assert list(node.controller._machine.state.image.topics) == ["a"]
        node.controller.follow(2, None)
        assert await creation == [Errors.NOT_CONTROLLER]
        assert not node.controller._machine.is_active
        assert node.controller.image.topics == {}
        assert await node.create("b") == [Errors.NOT_CONTROLLER]

    asyncio.run(scenario())


def test_a_transaction_without_an_end_is_aborted() -> None:
    async def scenario() -> None:
        node = await started(new_disk())
        await node.register()
        begin = BeginTransactionRecord(name="never ended")
        ghost = TopicRecord(name="ghost", topic_id=uuid(1))
        node.controller._write_unasked(Result([begin, ghost], None))
        await settle()
        assert "ghost" not in node.controller.image.topics
        again = await started(node.files.restart("kill"))
        assert "ghost" not in again.controller.image.topics
        assert isinstance(again.records()[-1], AbortTransactionRecord)
        await again.register()
        assert await again.create("real") == [Errors.NONE]
        assert list(again.controller.image.topics) == ["real"]

    asyncio.run(scenario())


def test_commands_before_the_start_are_refused() -> None:
    async def scenario() -> None:
        node = Node(new_disk())
        assert await node.create("a") == [Errors.NOT_CONTROLLER]
        await node.controller.stop()

    asyncio.run(scenario())


def test_a_node_that_nobody_made_a_voter_does_not_start() -> None:
    async def scenario() -> None:
        node = Node(new_disk(), voters=VoterSet())
        with pytest.raises(NotAVoterError, match="--standalone"):
            await node.controller.start()

    asyncio.run(scenario())


def test_timers_write_and_fence_and_snapshot() -> None:
    async def scenario() -> None:
        files = new_disk()
        node = Node(
            files,
            metadata_max_idle_interval_ms="5",
            broker_session_timeout_ms="60",
            metadata_log_max_record_bytes_between_snapshots="500",
        )
        await node.controller.start()
        run = asyncio.ensure_future(node.controller.run())  # noqa: TID251
        await node.register()
        assert not node.controller.image.brokers[NODE_ID].is_fenced
        async with asyncio.timeout(5):
            while not (  # noqa: ASYNC110 The condition is about many parts.
                node.controller.image.brokers[NODE_ID].is_fenced
                and sum(isinstance(each, NoOpRecord) for each in node.records()) > 3
                and node.controller.driver.log.latest_snapshot_id() is not None
            ):
                await asyncio.sleep(0.01)
        await node.controller.stop()
        await run

    asyncio.run(scenario())


def test_a_snapshot_that_cannot_be_written_is_reported_and_no_more() -> None:
    async def scenario() -> None:
        files = new_disk()
        reports: list[str] = []
        node = Node(files, report=reports.append)
        await node.controller.start()
        await node.register()
        files.faults.append(Fault("sync", ".part", errno.ENOSPC))
        await node.controller.stop()
        assert len(reports) == 1
        assert "snapshot" in reports[0]
        assert not any(".part" in name for name in files.list_directory(FOLDER))
        assert files.open_handles == 0

    asyncio.run(scenario())


def test_reads_show_what_is_committed() -> None:
    async def scenario() -> None:
        async with running(new_disk()) as node:
            response = await node.controller.list_partition_reassignments(
                ListPartitionReassignmentsRequest(topics=None), RequestContext(0)
            )
            assert (response.error_code, response.topics) == (0, [])

    asyncio.run(scenario())


def test_kraft_version_is_raised_by_the_quorum() -> None:
    async def scenario() -> None:
        files = new_disk()
        async with running(files) as node:
            response = await node.controller.update_features(
                UpdateFeaturesRequest(
                    feature_updates=[FeatureUpdateKey(feature="kraft.version", max_version_level=1)]
                ),
                RequestContext(2),
            )
            assert response.error_code == Errors.NONE
            assert node.controller.driver.kraft_version == 1
        async with running(files.restart("lost"), voters=VoterSet()) as again:
            assert again.controller.driver.kraft_version == 1
            (voter,) = again.controller.driver.machine.voter_set.voters
            assert voter.supported_kraft_version == KRAFT_VERSIONS

    asyncio.run(scenario())
