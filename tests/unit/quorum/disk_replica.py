"""A replica of the quorum on a simulated disk, with a state that is a list of values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from random import Random
from typing import Any

from kaa.log.dirs import LogDirectory
from kaa.log.sim_files import SimFiles
from kaa.model.nodes import Endpoint
from kaa.model.pieces import Pieces
from kaa.quorum import OffsetAndEpoch, QuorumConfig, ReplicaKey, VoterNode, VoterSet
from kaa.quorum.driver import QuorumDriver
from kaa.quorum.metadata_log import MetadataLogConfig, open_metadata_log
from kaa.quorum.node import QuorumNode, build_driver
from kaa.quorum.replicated_state import CommittedBatch, QuorumNetwork
from kaa.quorum.snapshots import SnapshotContent, build_snapshot
from kaa.quorum.voters import KRAFT_VERSIONS
from kaa.records.build import BatchBuilder
from kaa.wire.primitives import Uuid
from tests.support.ids import uuid

ROOT = "/data"
FOLDER = f"{ROOT}/__cluster_metadata-0"
LISTENER = "CONTROLLER"


class InlineExecutor(Executor):
    """Works at once, in the calling thread; the loop hears of it in its next round."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 A simulated crash is no Exception.
            future.set_exception(error)
        return future


class HeldExecutor(Executor):
    """Works when it is asked to."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs.append((future, lambda: fn(*args, **kwargs)))
        return future

    def work(self) -> None:
        """Does one job."""
        future, job = self.jobs.pop(0)
        try:
            future.set_result(job())
        except OSError as error:
            future.set_exception(error)


class FixedClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def wall_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class ValuesState:
    """Keeps every committed value, and what it was notified of."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.epoch: int | None = None
        self.story: list[object] = []
        self.committed_offset = 0
        self.error: BaseException | None = None
        self.is_stopped = False

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, content: SnapshotContent) -> Pieces[None]:
        # As below: in two pieces now and then.
        if snapshot_id.offset % 2 == 0:
            yield
        values = []
        for value in content.values:
            if value is None:
                yield
            else:
                values.append(value)
        self.values = values
        self.committed_offset = snapshot_id.offset
        self.story.append(("load", str(snapshot_id)))

    def commit(self, batch: CommittedBatch) -> Pieces[None]:
        # A batch in two pieces now and then; nothing of it counts before the last one.
        if batch.base_offset % 3 == 0:
            yield
        assert batch.base_offset == self.committed_offset
        self.committed_offset = batch.last_offset + 1
        self.values += batch.values

    def committed_up_to(self, offset: int) -> None:
        assert offset == self.committed_offset

    def lead(self, epoch: int) -> None:
        self.epoch = epoch
        self.story.append(("lead", epoch))

    def follow(self, epoch: int, leader_id: int | None) -> None:
        self.epoch = None
        self.story.append(("follow", epoch, leader_id))

    def voters_changed(self) -> None:
        pass

    def stopped(self, error: BaseException | None) -> None:
        self.epoch = None
        self.error, self.is_stopped = error, True


def directory_id(node_id: int) -> Uuid:
    return uuid((node_id + 1) << 64)


def voter(node_id: int, *, with_directory: bool = False) -> VoterNode:
    key = ReplicaKey(node_id, directory_id(node_id) if with_directory else None)
    return VoterNode(key, (Endpoint(LISTENER, f"node-{node_id}", 9093),), KRAFT_VERSIONS)


def node(node_id: int, voters: VoterSet) -> QuorumNode:
    return QuorumNode(
        "cluster",
        node_id,
        directory_id(node_id),
        LISTENER,
        (Endpoint(LISTENER, f"node-{node_id}", 9093),),
        voters,
        # Elections are quick; a leader is not given up because the machine is slow.
        QuorumConfig(election_timeout_ms=20, fetch_timeout_ms=10_000, fetch_max_wait_ms=5),
    )


class DiskReplica:
    """A driver with its log on a simulated disk; make it inside a running loop."""

    def __init__(
        self,
        files: SimFiles,
        *,
        node_id: int = 1,
        voters: VoterSet | None = None,
        config: MetadataLogConfig | None = None,
        executor: Executor | None = None,
        network: QuorumNetwork | None = None,
        clock: FixedClock | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.files = files
        self.clock = clock or FixedClock()
        self.executor = executor or InlineExecutor()
        self.state = ValuesState()
        self.directory = LogDirectory(files, ROOT)
        self.opened = open_metadata_log(
            self.directory, config or MetadataLogConfig(), self.clock.wall_ms(), Random(node_id)
        )
        self.log = self.opened.log
        static = VoterSet.of([voter(node_id)]) if voters is None else voters
        self.driver: QuorumDriver = build_driver(
            self.opened,
            node(node_id, static),
            state=self.state,
            files=files,
            clock=self.clock,
            executor=self.executor,
            loop=asyncio.get_running_loop(),
            random=Random(node_id),
            network=network,
            report=report,
        )
        snapshot = None
        if self.opened.snapshot_id is not None and self.opened.snapshot is not None:
            snapshot = (self.opened.snapshot_id, self.opened.snapshot)
        self.driver.start(snapshot)

    def append(self, *values: bytes) -> int | None:
        if self.state.epoch is None:
            return None
        builder = BatchBuilder(partition_leader_epoch=self.state.epoch)
        for value in values:
            builder.append(self.clock.wall_ms(), None, value)
        return self.driver.append(self.state.epoch, builder.build())

    def snapshot(self) -> OffsetAndEpoch:
        """Writes a snapshot of what is committed."""
        offset = self.state.committed_offset
        epoch = self.log.end_offset_for_epoch(self.log.end().epoch).epoch
        snapshot_id = OffsetAndEpoch(offset, epoch)
        writer = self.log.begin_snapshot(snapshot_id)
        for batch in build_snapshot(
            snapshot_id,
            self.state.values,
            timestamp=self.clock.wall_ms(),
            last_contained_log_timestamp=self.clock.wall_ms(),
        ):
            writer.append(batch)
        writer.finish()
        self.log.add_snapshot(writer, self.clock.wall_ms())
        return snapshot_id

    def clean(self) -> None:
        """Applies retention."""
        for step in self.log.cleaning_steps(self.clock.wall_ms()):
            step()


def new_disk() -> SimFiles:
    files = SimFiles()
    files.make_directory(ROOT)
    files.sync_directory("/")
    return files


async def settle(rounds: int = 30) -> None:
    """Lets everything that is ready to run, run."""
    for _ in range(rounds):
        await asyncio.sleep(0)
