"""A replica and its controller on a simulated disk: answers wait for commits."""

from __future__ import annotations

import asyncio
import errno
import time
from typing import Any

import pytest

from kaa.controller.formatting import FormatRequest, plan_format
from kaa.controller.replica import _log_config
from kaa.controller.result import ControllerError, ControllerResult
from kaa.controller.writing import batches_of
from kaa.limits import RECORDS_PER_PIECE
from kaa.log.errors import StorageError
from kaa.log.sim_files import Fault
from kaa.model.pieces import Pieces
from kaa.quorum import VoterSet
from kaa.quorum.metadata_log import MetadataLogConfig
from kaa.quorum.node import NotAVoterError
from kaa.quorum.snapshots import parse_snapshot_name
from kaa.quorum.voters import KRAFT_VERSIONS
from kaa.wire.errors import Errors
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
from tests.unit.controller.cluster import (
    CLUSTER_ID,
    NODE_ID,
    Cluster,
    broker_config,
    uuid,
)
from tests.unit.controller.replica_node import Node, image_of, running, started
from tests.unit.quorum.disk_replica import (
    FOLDER,
    ROOT,
    HeldExecutor,
    directory_id,
    new_disk,
    settle,
)


def test_a_new_cluster_gets_its_bootstrap_records_in_a_transaction() -> None:
    async def scenario() -> None:
        async with running(new_disk()) as node:
            records = node.records()
            assert isinstance(records[0], BeginTransactionRecord)
            assert isinstance(records[-1], EndTransactionRecord)
            assert node.replica.image.features["metadata.version"] == 30
            assert node.replica.image.configs[4, ""] == {"min.insync.replicas": "1"}
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
            assert "group.version" not in node.replica.image.features
            assert node.replica.image.features["share.version"] == 1

    asyncio.run(scenario())


def test_a_restart_finds_everything_again() -> None:
    async def scenario() -> None:
        files = new_disk()
        async with running(files) as node:
            await node.register()
            assert await node.create("a", "b", partitions=3) == [Errors.NONE] * 2
            before = image_of(node.replica.image)
        async with running(files.restart("lost")) as again:
            assert image_of(again.replica.image) == before
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
        assert node.replica._snapshotter is not None
        assert await node.replica._snapshotter.take()
        assert not await node.replica._snapshotter.take()
        await node.create("c")
        update = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
        await node.submit(UpdateFeaturesRequest(feature_updates=[update]), 2)
        expected = image_of(node.replica.image)
        with_snapshot = await started(node.files.restart("kill"))
        assert with_snapshot.replica.driver.applied_offset > 0
        assert image_of(with_snapshot.replica.image) == expected
        disk = with_snapshot.files.restart("kill")
        for name in disk.list_directory(FOLDER):
            if parse_snapshot_name(name) is not None:
                disk.unlink(f"{FOLDER}/{name}")
        from_the_log_alone = await started(disk)
        assert image_of(from_the_log_alone.replica.image) == expected

    asyncio.run(scenario())


def test_answers_leave_when_the_records_are_on_disk() -> None:
    async def scenario() -> None:
        executor = HeldExecutor()
        node = Node(new_disk(), executor=executor)
        start = asyncio.ensure_future(node.start())  # noqa: TID251

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
        assert node.replica.image.topics == {}
        assert len(executor.jobs) == 1
        executor.work()
        await settle()
        assert (first.done(), second.done(), third.done()) == (True, True, False)
        assert list(node.replica.image.topics) == ["a"]
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
        await node.start()
        await node.register()
        await node.create("a")
        files.faults.append(Fault(operation, ".log", errno.EIO))
        assert await node.create("b") == [Errors.NOT_CONTROLLER]
        assert list(node.replica.image.topics) == ["a"]
        assert await node.create("c") == [Errors.NOT_CONTROLLER]
        assert node.life is not None
        with pytest.raises(ExceptionGroup) as failure:
            await node.life
        assert failure.group_contains(StorageError)
        await node.replica.stop()
        assert files.open_handles == 0
        again = Node(files.restart("lost"))
        await again.start()
        assert list(again.replica.image.topics) == ["a"]

    asyncio.run(scenario())


MANY = 5 * RECORDS_PER_PIECE


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
                topics = node.replica.image.topics.values()
                assert [len(found.partitions) for found in topics] in ([], [MANY])
            assert turns > 10
            assert await creation == [Errors.NONE]
            assert await again == [Errors.TOPIC_ALREADY_EXISTS]
            image = image_of(node.replica.image)
        async with running(files) as node:
            found = image_of(node.replica.image)
            assert found["topics"] == image["topics"]

    asyncio.run(scenario())


def test_who_gives_up_on_a_long_decision_leaves_it_whole() -> None:
    async def scenario() -> None:
        async with running(new_disk()) as node:
            await node.register()
            left: list[int] = []
            for pauses in range(3, 16, 3):
                name = f"t{pauses}"
                creation = asyncio.ensure_future(node.create(name, partitions=MANY))  # noqa: TID251
                for _ in range(pauses):
                    await asyncio.sleep(0)
                creation.cancel()
                left.append(0)
                while not creation.done():
                    await asyncio.sleep(0)
                    left[-1] += 1
                assert creation.cancelled()
                assert await node.create(name) == [Errors.TOPIC_ALREADY_EXISTS]
                assert len(node.replica.image.topics[name].partitions) == MANY
            # Others have their turns while it ends.
            assert left[0] > 5

    asyncio.run(scenario())


def test_leadership_lost_within_a_long_decision() -> None:
    async def scenario() -> None:
        async with running(new_disk()) as node:
            await node.register()
            creation = asyncio.ensure_future(node.create("a", partitions=MANY))  # noqa: TID251
            for _ in range(4):
                await asyncio.sleep(0)
            assert not creation.done()
            node.replica.follow(2, None)
            assert await creation == [Errors.NOT_CONTROLLER]
            assert node.replica.image.topics == {}

    asyncio.run(scenario())


def test_a_start_that_is_given_up_closes_the_log_that_a_thread_opens() -> None:
    async def scenario() -> None:
        executor, disk = HeldExecutor(), new_disk()
        replica = Node(disk, executor=executor).replica
        start = asyncio.ensure_future(replica.open())  # noqa: TID251
        while not executor.jobs:
            await settle()
        start.cancel()
        await settle()
        assert not start.done()
        executor.work()
        with pytest.raises(asyncio.CancelledError):
            await start
        assert disk.open_handles == 0

    asyncio.run(scenario())


def test_lost_leadership_drops_the_newest_image() -> None:
    """The committed image is what the next leadership starts from."""

    async def scenario() -> None:
        executor = HeldExecutor()
        node = Node(new_disk(), executor=executor)
        start = asyncio.ensure_future(node.start())  # noqa: TID251
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
        active = node.replica.active
        assert active is not None
        assert list(active._machine.state.image.topics) == ["a"]
        node.replica.follow(2, None)
        assert await creation == [Errors.NOT_CONTROLLER]
        assert not active._machine.is_active
        assert node.replica.active is None
        assert node.replica.image.topics == {}
        assert await node.create("b") == [Errors.NOT_CONTROLLER]

    asyncio.run(scenario())


async def lead_again(node: Node) -> None:
    """Another controller takes over, which happens to be on the same node."""
    active = node.replica.active
    assert active is not None
    node.replica.driver.resign(active.epoch)
    async with asyncio.timeout(30):
        while node.replica.active in {None, active}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert node.replica.active is not None
    await asyncio.wait([node.replica.active.activated])


def test_the_next_controller_unfences_a_broker_when_it_has_followed_its_registration() -> None:
    """Not when it has followed the records about its partitions, which come first."""

    async def scenario() -> None:
        async with running(new_disk()) as node:
            await node.register()
            await node.create("a", partitions=3)
            await lead_again(node)
            request = Cluster(0).registration(NODE_ID, incarnation_id=uuid(99))
            epoch = (await node.submit(request, 4)).broker_epoch
            end = node.replica.committed_offset
            assert end > epoch
            await lead_again(node)
            for offset, is_fenced in ((epoch, True), (end - 1, True), (end, False)):
                beat = BrokerHeartbeatRequest(
                    broker_id=NODE_ID, broker_epoch=epoch, current_metadata_offset=offset
                )
                answer = await node.submit(beat, 1)
                assert answer.error_code == Errors.NONE
                assert answer.is_fenced is is_fenced, offset

    asyncio.run(scenario())


def test_a_controller_that_was_paused_hears_brokers_before_it_fences_them() -> None:
    """Their heartbeats wait in its sockets, while all its timers are due."""

    async def scenario() -> None:
        async with running(new_disk(), broker_session_timeout_ms="800") as node:
            epoch = await node.register()
            time.sleep(1.2)  # noqa: ASYNC251, TID251 The pause itself.
            await asyncio.sleep(0.05)
            assert not node.replica.image.brokers[NODE_ID].is_fenced
            # One that is not heard of afterwards either is fenced.
            async with asyncio.timeout(20):
                while not node.replica.image.brokers[NODE_ID].is_fenced:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert node.replica.image.brokers[NODE_ID].epoch == epoch

    asyncio.run(scenario())


def test_a_leader_that_cannot_write_its_first_records_resigns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that stayed would keep every command waiting for it."""
    failures = 1

    def fail_once(*arguments: Any, **named: Any) -> Pieces[Any]:
        nonlocal failures
        if failures:
            failures -= 1
            raise ControllerError(Errors.UNKNOWN_SERVER_ERROR, "too large")
        return (yield from batches_of(*arguments, **named))

    monkeypatch.setattr("kaa.controller.active.batches_of", fail_once)
    reports: list[str] = []

    async def scenario() -> None:
        async with running(new_disk(), report=reports.append) as node:
            # The one that failed.
            assert await node.create("early") == [Errors.NOT_CONTROLLER]
            while node.replica.leader.epoch == 1 or node.replica.active is None:
                await node.replica.leader_changed(1.0)
            await node.register()
            assert await node.create("late") == [Errors.NONE]

    asyncio.run(scenario())
    assert [report for report in reports if "cannot write the first records of epoch 1" in report]


def test_a_transaction_without_an_end_is_aborted() -> None:
    async def scenario() -> None:
        node = await started(new_disk())
        await node.register()
        begin = BeginTransactionRecord(name="never ended")
        ghost = TopicRecord(name="ghost", topic_id=uuid(1))
        assert node.replica.active is not None
        await node.replica.active.decide_unasked(
            lambda _: ControllerResult([begin, ghost], response=False)
        )
        await settle()
        assert "ghost" not in node.replica.image.topics
        again = await started(node.files.restart("kill"))
        assert "ghost" not in again.replica.image.topics
        assert isinstance(again.records()[-1], AbortTransactionRecord)
        await again.register()
        assert await again.create("real") == [Errors.NONE]
        assert list(again.replica.image.topics) == ["real"]

    asyncio.run(scenario())


def test_commands_before_the_start_are_refused() -> None:
    async def scenario() -> None:
        node = Node(new_disk())
        assert await node.create("a") == [Errors.NOT_CONTROLLER]
        await node.replica.stop()

    asyncio.run(scenario())


def test_a_node_that_nobody_made_a_voter_does_not_start() -> None:
    async def scenario() -> None:
        files = new_disk()
        node = Node(files, voters=VoterSet())
        with pytest.raises(NotAVoterError, match="--standalone"):
            await node.start()
        assert files.open_handles == 0

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
        await node.start()
        await node.register()
        assert not node.replica.image.brokers[NODE_ID].is_fenced
        async with asyncio.timeout(60):
            while not (  # noqa: ASYNC110 The condition is about many parts.
                node.replica.image.brokers[NODE_ID].is_fenced
                and sum(isinstance(each, NoOpRecord) for each in node.records()) > 3
                and node.replica.driver.log.latest_snapshot_id() is not None
            ):
                await asyncio.sleep(0.01)
        await node.replica.stop()
        assert node.life is not None
        await node.life

    asyncio.run(scenario())


def test_the_settings_of_the_metadata_log_count() -> None:
    names = MetadataLogConfig._fields
    given = {name: 9_000_000 + place for place, name in enumerate(names)}
    config = broker_config(**{name: str(value) for name, value in given.items()})
    assert _log_config(config) == MetadataLogConfig(**given)
    small = broker_config(internal_metadata_log_segment_bytes="2000")
    assert _log_config(small).metadata_log_segment_bytes == 2000


def test_a_snapshot_that_cannot_be_written_is_reported_and_no_more() -> None:
    async def scenario() -> None:
        files = new_disk()
        reports: list[str] = []
        node = Node(files, report=reports.append)
        await node.start()
        await node.register()
        files.faults.append(Fault("sync", ".part", errno.ENOSPC))
        await node.replica.stop()
        assert len(reports) == 1
        assert "snapshot" in reports[0]
        assert not any(".part" in name for name in files.list_directory(FOLDER))
        assert files.open_handles == 0

    asyncio.run(scenario())


def test_reads_show_what_is_committed() -> None:
    async def scenario() -> None:
        async with running(new_disk()) as node:
            response = await node.submit(ListPartitionReassignmentsRequest(topics=None), 0)
            assert (response.error_code, response.topics) == (0, [])

    asyncio.run(scenario())


def test_kraft_version_is_raised_by_the_quorum() -> None:
    async def scenario() -> None:
        files = new_disk()
        async with running(files) as node:
            response = await node.submit(
                UpdateFeaturesRequest(
                    feature_updates=[FeatureUpdateKey(feature="kraft.version", max_version_level=1)]
                ),
                2,
            )
            assert response.error_code == Errors.NONE
            assert node.replica.driver.kraft_version == 1
        async with running(files.restart("lost"), voters=VoterSet()) as again:
            assert again.replica.driver.kraft_version == 1
            (voter,) = again.replica.driver.machine.voter_set.voters
            assert voter.supported_kraft_version == KRAFT_VERSIONS

    asyncio.run(scenario())
