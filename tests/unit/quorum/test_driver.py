"""The driver on a simulated disk: a quorum of one, group commit, failures, three replicas."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest

from kaa.log.quorum_state import read_quorum_state
from kaa.log.sim_files import Fault, Inspection, SimFiles
from kaa.model.pieces import Pieces
from kaa.quorum import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Node,
    OffsetAndEpoch,
    Request,
    Response,
    VoterSet,
)
from kaa.quorum.control_records import read_control_records
from kaa.quorum.driver import _valid_part
from kaa.quorum.effects import TruncateLog
from kaa.quorum.log_view import BOOTSTRAP_SNAPSHOT_ID
from kaa.quorum.metadata_log import MetadataLogConfig
from kaa.quorum.replicated_state import CommittedBatch
from kaa.quorum.snapshots import build_snapshot, snapshot_name
from kaa.records.build import BatchBuilder
from kaa.wire.errors import Errors
from kaa.wire.messages.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from tests.unit.quorum.disk_replica import (
    FOLDER,
    ROOT,
    DiskReplica,
    HeldExecutor,
    new_disk,
    settle,
    voter,
)


def faults_of_the_loop() -> list[BaseException]:
    """What calls of the loop end with, from now on."""
    found: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: found.append(context["exception"]))
    return found


def test_a_quorum_of_one_leads_and_commits() -> None:
    async def scenario() -> None:
        replica = DiskReplica(new_disk())
        await settle()
        assert replica.state.story == [("follow", 1, None), ("lead", 1)]
        assert replica.append(b"a", b"b") == 1
        assert replica.append(b"c") == 3
        assert replica.state.values == []
        await settle()
        assert replica.state.values == [b"a", b"b", b"c"]
        assert replica.driver.describe() is not None
        assert replica.state.committed_offset == 4

    asyncio.run(scenario())


def test_vote_and_epoch_are_on_disk_before_the_leader_writes() -> None:
    async def scenario() -> None:
        files = new_disk()
        executor = HeldExecutor()
        replica = DiskReplica(files, executor=executor)
        await settle()
        assert replica.log.end().offset == 0
        assert replica.append(b"too early") is None
        while executor.jobs:
            executor.work()
            await settle()
        assert replica.state.epoch == 1
        stored = read_quorum_state(files, FOLDER)
        assert stored is not None
        assert (stored.leader_epoch, stored.leader_id, stored.current_voters) == (1, 1, (1,))
        assert stored.version == 0

    asyncio.run(scenario())


def test_writes_during_a_sync_share_the_next_one() -> None:
    async def scenario() -> None:
        executor = HeldExecutor()
        replica = DiskReplica(new_disk(), executor=executor)
        await settle()
        while executor.jobs:
            executor.work()
            await settle()
        replica.append(b"first")
        await settle()
        assert len(executor.jobs) == 1
        for number in range(10):
            replica.append(b"%d" % number)
            await settle()
        assert len(executor.jobs) == 1
        executor.work()
        await settle()
        assert replica.state.values == [b"first"]
        assert len(executor.jobs) == 1
        executor.work()
        await settle()
        assert len(replica.state.values) == 11
        assert executor.jobs == []

    asyncio.run(scenario())


def test_a_restart_replays_what_was_committed() -> None:
    async def scenario() -> None:
        files = new_disk()
        first = DiskReplica(files)
        await settle()
        first.append(b"a")
        await settle()
        second = DiskReplica(files.restart("lost"))
        await settle()
        assert second.state.values == [b"a"]
        assert second.state.epoch == 2
        second.append(b"b")
        await settle()
        third = DiskReplica(second.files.restart("lost"))
        await settle()
        assert third.state.values == [b"a", b"b"]

    asyncio.run(scenario())


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failed_write_or_sync_ends_the_driver_for_good(
    operation: Literal["write", "sync"],
) -> None:
    async def scenario() -> None:
        files = new_disk()
        replica = DiskReplica(files)
        await settle()
        replica.append(b"good")
        await settle()
        files.faults.append(Fault(operation, ".log", errno.EIO))
        replica.append(b"bad")
        await settle()
        assert replica.state.is_stopped
        assert replica.state.error is not None
        assert replica.state.values == [b"good"]
        assert replica.directory.offline_reason is not None
        assert replica.append(b"more") is None
        assert isinstance(await replica.driver.serve(_any_request()), ErrorResponse)

    asyncio.run(scenario())


def test_a_fault_of_the_machine_ends_the_driver_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that went on would be leader by its word, and do nothing."""

    async def scenario() -> None:
        replica = DiskReplica(new_disk())
        await settle()
        monkeypatch.setattr(replica.driver, "_change_log", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            replica.append(b"bad")
        assert isinstance(replica.state.error, ZeroDivisionError)
        assert isinstance(await replica.driver.serve(_any_request()), ErrorResponse)

    asyncio.run(scenario())


def test_a_fault_in_a_later_piece_of_a_batch_ends_the_driver() -> None:
    """One that went on would take the batch for applied, and leave its records out for ever."""

    async def scenario() -> None:
        replica = DiskReplica(new_disk())
        await settle()
        state = replica.state
        commit = state.commit

        def fail_in_the_second_piece(batch: CommittedBatch) -> Pieces[None]:
            if batch.base_offset == 2:
                yield
                raise ZeroDivisionError
            yield from commit(batch)

        state.commit = fail_in_the_second_piece  # type: ignore[method-assign]
        replica.append(b"good")
        await settle()
        faults = faults_of_the_loop()
        replica.append(b"bad")
        replica.append(b"more")
        await settle()
        assert isinstance(state.error, ZeroDivisionError)
        assert [type(fault) for fault in faults] == [ZeroDivisionError]
        assert state.values == [b"good"]
        assert replica.driver.applied_offset == state.committed_offset == 2

    asyncio.run(scenario())


def test_a_fault_after_work_on_the_disk_ends_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        replica = DiskReplica(new_disk())
        await settle()
        faults = faults_of_the_loop()
        replica.driver._hold(lambda: None, [].pop)
        await settle()
        assert isinstance(replica.state.error, IndexError)
        assert [type(fault) for fault in faults] == [IndexError]

    async def sync_scenario() -> None:
        replica = DiskReplica(new_disk())
        await settle()
        faults = faults_of_the_loop()
        monkeypatch.setattr(replica.log, "complete_flush", lambda *_: 1 / 0)
        replica.append(b"bad")
        await settle()
        assert isinstance(replica.state.error, ZeroDivisionError)
        assert [type(fault) for fault in faults] == [ZeroDivisionError]

    asyncio.run(scenario())
    asyncio.run(sync_scenario())


def test_a_vote_that_cannot_be_stored_ends_the_driver() -> None:
    async def scenario() -> None:
        files = new_disk()
        files.faults.append(Fault("sync", "quorum-state", errno.EIO))
        replica = DiskReplica(files)
        await settle()
        assert isinstance(replica.state.error, OSError)
        assert replica.log.end().offset == 0

    asyncio.run(scenario())


def test_shutting_down() -> None:
    async def scenario() -> None:
        replica = DiskReplica(new_disk())
        await settle()
        replica.driver.shut_down(100)
        await settle()
        assert (replica.state.is_stopped, replica.state.error) == (True, None)
        replica.log.close(0)
        assert replica.files.open_handles == 0

    asyncio.run(scenario())


def test_resigning_gives_the_leadership_up_and_a_quorum_of_one_takes_it_again() -> None:
    async def scenario() -> None:
        replica = DiskReplica(new_disk())
        await settle()
        replica.driver.resign(1)
        await until(lambda: replica.state.epoch not in {None, 1})
        assert replica.append(b"again") is not None

    asyncio.run(scenario())


# --- voters in the log


def formatted(files: SimFiles, voters: VoterSet | None = None) -> None:
    """A disk as formatting leaves it for a dynamic quorum, of one unless told."""
    files.make_directory(FOLDER)
    file = files.create(f"{FOLDER}/{snapshot_name(BOOTSTRAP_SNAPSHOT_ID)}")
    content = build_snapshot(
        BOOTSTRAP_SNAPSHOT_ID,
        (),
        timestamp=0,
        last_contained_log_timestamp=0,
        kraft_version=1,
        voters=voters or VoterSet.of([voter(1, with_directory=True)]),
    )
    file.write([b"".join(content)], 0)
    file.sync()
    files.sync_directory(FOLDER)
    files.sync_directory("/data")


def control_messages(replica: DiskReplica) -> list[type[object]]:
    return [
        type(record.message)
        for batch in replica.log.batches(0, replica.log.end().offset)
        if batch.is_control
        for record in read_control_records(batch)
    ]


def test_the_first_leader_of_a_dynamic_quorum_writes_its_voters() -> None:
    async def scenario() -> None:
        files = new_disk()
        formatted(files)
        replica = DiskReplica(files, voters=VoterSet())
        await settle()
        assert replica.state.epoch == 1
        assert replica.driver.kraft_version == 1
        assert control_messages(replica) == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
        stored = read_quorum_state(files, FOLDER)
        assert stored is not None
        assert stored.version == 1
        again = DiskReplica(files.restart("kill"), voters=VoterSet())
        await settle()
        # The voters are in the log now, so the second leader does not repeat them.
        assert control_messages(again)[3:] == [LeaderChangeMessage]

    asyncio.run(scenario())


def test_kraft_version_can_be_raised_where_one_replica_votes() -> None:
    async def scenario() -> None:
        files = new_disk()
        replica = DiskReplica(files)
        await settle()
        assert replica.driver.kraft_version == 0
        assert replica.driver.raise_kraft_version(1, 1) is not None
        await settle()
        assert replica.driver.kraft_version == 1
        assert replica.driver.machine.voter_set == VoterSet.of([voter(1, with_directory=True)])
        replica.append(b"x")
        await settle()
        assert replica.state.values == [b"x"]
        again = DiskReplica(files.restart("lost"), voters=VoterSet())
        await settle()
        assert (again.driver.kraft_version, again.state.values) == (1, [b"x"])

    asyncio.run(scenario())


# --- several replicas


class Wires:
    """A network between drivers of one loop. A cut node neither sends nor receives."""

    def __init__(self) -> None:
        self.replicas: dict[int, DiskReplica] = {}
        self.cut: set[int] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    def port(self, node_id: int) -> WirePort:
        return WirePort(self, node_id)

    async def carry(
        self,
        sender: int,
        to: Node,
        correlation_id: int,
        request: Request,
        deliver: Callable[[int, int, Response], None],
    ) -> None:
        response: Response = ErrorResponse(Errors.BROKER_NOT_AVAILABLE)
        target = self.replicas.get(int(to.host.removeprefix("node-")))
        if target is not None and not {sender, int(to.host.removeprefix("node-"))} & self.cut:
            response = await target.driver.serve(request)
        else:
            await asyncio.sleep(0.002)
        deliver(to.id, correlation_id, response)


class WirePort:
    def __init__(self, wires: Wires, node_id: int) -> None:
        self._wires = wires
        self._node_id = node_id

    def send(
        self,
        node: Node,
        correlation_id: int,
        request: Request,
        deliver: Callable[[int, int, Response], None],
    ) -> None:
        task = asyncio.get_running_loop().create_task(
            self._wires.carry(self._node_id, node, correlation_id, request, deliver)
        )
        self._wires.tasks.add(task)
        task.add_done_callback(self._wires.tasks.discard)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 The condition is about many parts.
            await asyncio.sleep(0.002)


SMALL_LOG = MetadataLogConfig(metadata_log_segment_bytes=400, metadata_max_retention_bytes=1)


class WatchedFiles(SimFiles):
    """Notes which threads read snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: set[int] = set()
        self.make_directory(ROOT)

    def inspect(self, operation: Inspection, path: str) -> None:
        if operation == "read" and path.endswith(".checkpoint"):
            self.readers.add(threading.get_ident())
        super().inspect(operation, path)


def test_three_replicas_agree_and_a_late_one_loads_a_snapshot() -> None:
    async def scenario() -> None:
        wires = Wires()
        files = WatchedFiles(), WatchedFiles(), WatchedFiles()
        voters = VoterSet.of([voter(node_id) for node_id in (1, 2, 3)])
        for node_id in (1, 2, 3):
            wires.replicas[node_id] = DiskReplica(
                files[node_id - 1],
                node_id=node_id,
                voters=voters,
                config=SMALL_LOG,
                network=wires.port(node_id),
                executor=ThreadPoolExecutor(1),
            )
        replicas = list(wires.replicas.values())
        await until(lambda: any(each.state.epoch for each in replicas))
        leader = next(each for each in replicas if each.state.epoch)
        leader.append(b"a", b"b")
        await until(lambda: all(each.state.values == [b"a", b"b"] for each in replicas))
        late = next(each for each in replicas if each is not leader)
        late_id = next(key for key, each in wires.replicas.items() if each is late)
        wires.cut.add(late_id)
        for number in range(20):
            assert leader.append(b"%d" % number) is not None
            await until(lambda: leader.state.values[-1] == b"%d" % number)  # noqa: B023
        leader.snapshot()
        leader.append(b"after the snapshot")
        await until(lambda: leader.state.values[-1] == b"after the snapshot")
        leader.snapshot()
        leader.clean()
        assert leader.log.start_offset() > late.log.end().offset
        wires.cut.clear()
        await until(lambda: late.state.values == leader.state.values)
        assert any(isinstance(each, tuple) and each[0] == "load" for each in late.state.story)
        for each in replicas:
            each.driver.close()
        await settle()
        for task in wires.tasks:
            task.cancel()
        # The leader to hand it out, the late one to load it; neither in the loop's own thread.
        readers = [each.readers for each in files if each.readers]
        assert len(readers) == 2
        assert not any(threading.get_ident() in each for each in readers)

    asyncio.run(scenario())


class Letters:
    """A network that only keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[Node, int, Request]] = []

    def send(
        self,
        node: Node,
        correlation_id: int,
        request: Request,
        deliver: Callable[[int, int, Response], None],
    ) -> None:
        self.sent.append((node, correlation_id, request))


def test_a_leader_that_resigns_while_its_snapshot_is_installed() -> None:
    """A former only voter of the settings must not lead beside the voters of today."""
    three = VoterSet.of([voter(node_id, with_directory=True) for node_id in (1, 2, 3)])
    snapshot_id = OffsetAndEpoch(40, 5)
    content = b"".join(
        build_snapshot(
            snapshot_id,
            [b"state"],
            timestamp=0,
            last_contained_log_timestamp=0,
            kraft_version=1,
            voters=three,
        )
    )

    async def scenario() -> None:
        files = new_disk()
        formatted(files, three)
        executor, letters = HeldExecutor(), Letters()
        # Its settings name no one but itself.
        replica = DiskReplica(files, executor=executor, network=letters)
        driver, leader = replica.driver, voter(2).endpoints
        loop = asyncio.get_running_loop()

        async def work() -> None:
            await settle()
            while executor.jobs:
                executor.work()
                await settle()

        async def answer(request_type: type, **facts: Any) -> None:
            node, correlation_id, request = letters.sent[-1]
            assert isinstance(request, request_type), request
            kind = FetchResponse if request_type is FetchRequest else FetchSnapshotResponse
            response = kind(Errors.NONE, 2, 6, leader, **facts)
            driver.received_response(node.id, correlation_id, response)
            await settle()

        await work()
        begin = BeginQuorumEpochRequest("cluster", None, 2, 6, leader)
        begun = loop.create_task(driver.serve(begin))
        await work()
        await begun
        nothing: dict[str, Any] = {"high_watermark": None, "log_start_offset": 0}
        await answer(FetchRequest, **nothing, snapshot_id=snapshot_id)
        piece: dict[str, Any] = {"size_bytes": len(content), "records": content}
        await answer(FetchSnapshotRequest, **piece, snapshot_id=snapshot_id)
        assert len(executor.jobs) == 1
        resigns = EndQuorumEpochRequest("cluster", 2, 6, leader, (three.voters[0].key,))
        resigned = loop.create_task(driver.serve(resigns))
        await settle()
        assert not resigned.done()
        await work()
        assert (await resigned).error is Errors.NONE
        assert not driver.machine.is_leader
        assert driver.machine.voter_set == three
        assert (driver.machine.epoch, replica.log.start_offset()) == (6, 40)
        driver.close()

    asyncio.run(scenario())


def test_a_log_is_cut_by_a_thread_while_everything_else_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        alone = DiskReplica(new_disk())
        await settle()
        alone.append(b"a")
        alone.append(b"b")
        await settle()
        voters = VoterSet.of([voter(node_id) for node_id in (1, 2, 3)])
        replica = DiskReplica(alone.files.restart("kill"), voters=voters)
        assert replica.log.end().offset == 3
        writer = replica.directory.writer = HeldExecutor()
        reported: list[int] = []
        monkeypatch.setattr(
            replica.driver._commits, "wrote", lambda write_id, **_: reported.append(write_id)
        )
        replica.driver._effects.append(TruncateLog(9, 2))
        done = len(replica.files.history)
        replica.driver._pump()
        # Nobody reads beyond the new end from now on.
        assert replica.log.end().offset == 2
        rounds = 0
        # Afterwards an election may be due, if the machine stood still for so long.
        while not reported:
            assert replica.driver._is_held
            assert "sync" not in [operation for operation, _ in replica.files.history[done:]]
            await settle(2)
            if writer.jobs:
                rounds += 1
                writer.work()
                done = len(replica.files.history)
        assert rounds
        assert reported == [9]
        replica.driver.close()

    asyncio.run(scenario())


def test_only_whole_batches_in_a_row_are_taken_from_a_leader() -> None:
    def batch(offset: int) -> bytes:
        builder = BatchBuilder(base_offset=offset)
        builder.append(0, None, b"value")
        return bytes(builder.build())

    first, second = batch(7), batch(8)
    assert _valid_part(first + second, 7) == first + second
    assert _valid_part(first + second[:-1], 7) == first
    assert _valid_part(first + second[:-1] + b"!", 7) == first
    assert _valid_part(first + batch(9), 7) == first
    assert _valid_part(first, 8) == b""
    assert _valid_part(b"rubbish", 0) == b""


def _any_request() -> Request:
    return EndQuorumEpochRequest("cluster", 1, 1, (), ())
