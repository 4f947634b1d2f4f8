"""This node's replica of the metadata: follows the quorum's log in every role, leader or not.

`MetadataReplica` is what the quorum's driver feeds. It keeps the committed image, has it published
to the node (`publisher`), writes snapshots (`snapshotter`), and while this node leads, there is an
active controller (`active`). It never waits to lead: a broker without the controller role, and a
controller that was not elected, run the same code with another node's controller.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kaa.controller.active import ActiveController
from kaa.controller.bootstrap import bootstrap_records, read_bootstrap_records
from kaa.controller.loader import MetadataLoader
from kaa.controller.publisher import ImagePublisher
from kaa.controller.quorum_requests import QUORUM_REQUESTS
from kaa.controller.result import ControllerError
from kaa.controller.snapshotter import Snapshotter
from kaa.limits import METADATA_CLEAN_SECONDS
from kaa.log.errors import LogError, StorageError
from kaa.model.threads import outlast
from kaa.quorum.metadata_log import MetadataLogConfig, open_metadata_log
from kaa.quorum.node import build_driver
from kaa.quorum.snapshots import read_bootstrap
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from random import Random

    from kaa.config.server import BrokerConfig
    from kaa.controller.image import ClusterImage
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.publisher import Subscriber
    from kaa.log.dirs import LogDirectory
    from kaa.model.pieces import Pieces
    from kaa.model.seams import Clock
    from kaa.quorum.driver import QuorumDriver
    from kaa.quorum.log_view import OffsetAndEpoch
    from kaa.quorum.metadata_log import OpenedLog
    from kaa.quorum.node import QuorumNode
    from kaa.quorum.replicated_state import CommittedBatch, QuorumNetwork
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.wire.schema import MetadataRecord, Request

Answer = TypeVar("Answer")


class MetadataLeader(NamedTuple):
    """Who leads the quorum, as far as this node knows; its id is None for nobody."""

    epoch: int
    node_id: int | None


class MetadataReplica:
    """The metadata of this node, as the quorum's driver feeds it and everyone else reads it. `open`
    it, `start` it, and `stop` it at the end.
    """

    def __init__(
        self,
        *,
        config: BrokerConfig,
        node: QuorumNode,
        directory: LogDirectory,
        executor: Executor,
        clock: Clock,
        random: Random,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._node = node
        self._directory = directory
        self._executor = executor
        self._clock = clock
        self._random = random
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._loader = MetadataLoader()
        self._publisher = ImagePublisher(self._loop, self._loader.image, report, self._published)
        # Called when this node has followed more of the metadata.
        self.on_published: Callable[[], None] = lambda: None
        # Called when there are other controllers that this node may have to ask: those who vote and
        # the one who leads.
        self.on_controllers_changed: Callable[[frozenset[int]], None] = lambda _: None
        self._controllers: frozenset[int] = frozenset()
        self._bootstrap: list[MetadataRecord] = []
        self._driver: QuorumDriver | None = None
        self._snapshotter: Snapshotter | None = None
        # What the log was opened with; given away at the start.
        self._first_snapshot: tuple[OffsetAndEpoch, SnapshotContent] | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._duties: list[asyncio.Task[None]] = []
        # Only while this node leads.
        self.active: ActiveController | None = None
        self._active_task: asyncio.Task[None] | None = None
        # Each is replaced when it is done: when another leads, or this node is ready to; when more
        # is published.
        self._leader_news: asyncio.Future[None] = self._loop.create_future()
        self._published_news: asyncio.Future[None] = self._loop.create_future()
        self._stopped: asyncio.Future[None] = self._loop.create_future()

    @property
    def image(self) -> ClusterImage:
        """The committed image, to read."""
        return self._loader.image

    @property
    def committed_offset(self) -> int:
        """The last offset in the image, -1 for none."""
        return self._loader.last_offset

    @property
    def published_offset(self) -> int:
        """The last offset that this node has followed, -1 for none; a broker tells it in its
        heartbeats.
        """
        return self._publisher.published_offset - 1

    @property
    def is_open(self) -> bool:
        """Whether the metadata log is recovered."""
        return self._driver is not None

    @property
    def leader(self) -> MetadataLeader:
        """Who leads by what the quorum knows here."""
        if self._driver is None:
            return MetadataLeader(0, None)
        return MetadataLeader(*self._driver.machine.known_leader)

    @property
    def trouble(self) -> str | None:
        """What keeps this node from the quorum, with the remedy; None if nothing does."""
        return None if self._driver is None else self._driver.machine.trouble

    @property
    def driver(self) -> QuorumDriver:
        assert self._driver is not None, "the replica was not started"
        return self._driver

    # --- life

    async def open(self, network: QuorumNetwork | None = None) -> None:
        """Recovers the metadata log; requests of other replicas are answered from then on."""
        opening = self._loop.run_in_executor(
            self._executor,
            open_metadata_log,
            self._directory,
            _log_config(self._config),
            self._clock.wall_ms(),
            self._random,
        )
        was_cancelled = await outlast(opening)
        opened = opening.result()
        try:
            if was_cancelled:
                raise asyncio.CancelledError
            self._driver = self._make_driver(opened, network)
        except BaseException:
            opened.log.abandon()
            raise
        self._snapshotter = Snapshotter(
            self._driver,
            self._loader,
            self._clock,
            self._executor,
            self._report,
            bytes_max=self._config.get_int("metadata.log.max.record.bytes.between.snapshots"),
            interval_ms=self._config.get_int("metadata.log.max.snapshot.interval.ms"),
        )
        if opened.snapshot_id is not None and opened.snapshot is not None:
            self._first_snapshot = (opened.snapshot_id, opened.snapshot)

    def _make_driver(self, opened: OpenedLog, network: QuorumNetwork | None) -> QuorumDriver:
        files = self._directory.files
        values = read_bootstrap(files, self._directory.path)
        self._bootstrap = bootstrap_records() if values is None else read_bootstrap_records(values)
        return build_driver(
            opened,
            self._node,
            state=self,
            files=files,
            clock=self._clock,
            executor=self._executor,
            loop=self._loop,
            random=self._random,
            network=network,
            report=self._report,
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Joins the quorum; what the replica does from then on is in `tasks`, and a failure ends
        the group with its reason.
        """
        assert self._snapshotter is not None
        self._tasks = tasks
        for duty in (self._snapshotter.run(), self._keep_log(), self._fail_with_driver()):
            self._duties.append(tasks.create_task(duty))
        snapshot, self._first_snapshot = self._first_snapshot, None
        self.driver.start(snapshot)

    async def stop(self, timeout_ms: int = 5_000) -> None:
        """Writes a snapshot of what is new, hands the leadership over, and closes the log."""
        if self._driver is None or self._tasks is None:
            if self._driver is not None:
                self._driver.log.abandon()
            return
        if self._snapshotter is not None and not self._driver.is_stopped:
            await self._snapshotter.take_or_report()
        self._driver.shut_down(timeout_ms)
        await asyncio.wait({self._stopped})
        for duty in self._duties:
            duty.cancel()
        log = self._driver.log
        if self._stopped.exception() is not None:
            log.abandon()
            return
        await self._loop.run_in_executor(self._executor, log.close, self._clock.wall_ms())

    async def _fail_with_driver(self) -> None:
        """Ends when the driver does, with its error, which then names the metadata log."""
        await asyncio.wait({self._stopped})
        try:
            await self._stopped
        except OSError as error:
            raise StorageError(
                f"the metadata log in {self.driver.log.folder} failed ({error.strerror or error})"
            ) from error

    async def _keep_log(self) -> None:
        while True:
            await asyncio.sleep(METADATA_CLEAN_SECONDS)
            try:
                for step in self.driver.log.cleaning_steps(self._clock.wall_ms()):
                    await self._loop.run_in_executor(self._executor, step)
            except (OSError, LogError) as error:
                self._report(f"cannot remove old metadata: {error}")

    # --- for the rest of the node

    def subscribe(self, name: str, subscriber: Subscriber) -> None:
        """Has a part of the node follow the metadata from now on; see `publisher`."""
        self._publisher.subscribe(name, subscriber)

    async def submit(self, request: Request[Answer], context: ControllerRequestContext) -> Answer:
        """Has the active controller of this node decide, or its quorum answer.

        ControllerError that `is_elsewhere` if this node does not lead; REQUEST_TIMED_OUT if it
        takes longer than the sender waits.
        """
        ask_quorum = QUORUM_REQUESTS.get(type(request))
        seconds = None if context.timeout_ms is None else context.timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                if ask_quorum is not None:
                    version = context.api_version
                    found: Answer = await ask_quorum(self.driver, self._clock, request, version)
                    return found
                if self.active is None:
                    raise ControllerError(Errors.NOT_CONTROLLER)
                return await self.active.submit(request, context)
        except TimeoutError:
            raise ControllerError(Errors.REQUEST_TIMED_OUT) from None

    @property
    def is_stopped(self) -> bool:
        return self._stopped.done()

    async def leader_changed(self, seconds: float) -> None:
        """Waits until another leads, or nobody does, or the controller of this node takes
        commands, but not longer than so many seconds.
        """
        await asyncio.wait(
            {self._leader_news, self._stopped},
            timeout=seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )

    async def published(self, offset: int) -> None:
        """Waits until this node has followed the log to this offset; the error that stopped the
        replica, if that came first.
        """
        while self.published_offset < offset:
            await asyncio.wait(
                {self._published_news, self._stopped}, return_when=asyncio.FIRST_COMPLETED
            )
            if self._stopped.done():
                await self._stopped
                raise ConnectionError("this node's replica of the metadata has stopped")

    def _published(self, offset: int) -> None:
        if self.active is not None:
            self.active.published(offset)
        self.on_published()
        news, self._published_news = self._published_news, self._loop.create_future()
        news.set_result(None)

    # --- what the quorum tells

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, content: SnapshotContent) -> Pieces[None]:
        return self._loader.load(snapshot_id, content)

    def commit(self, batch: CommittedBatch) -> Pieces[None]:
        records = None if self.active is None else self.active.committed(batch.last_offset)
        return self._loader.commit(batch, records)

    def committed_up_to(self, offset: int) -> None:
        self._publisher.committed(self._loader.image, offset)
        if self._snapshotter is not None:
            self._snapshotter.committed()

    def lead(self, epoch: int) -> None:
        assert self._tasks is not None
        self._end_active()
        self.active = ActiveController(
            epoch,
            config=self._config,
            cluster_id=self._node.cluster_id,
            driver=self.driver,
            loader=self._loader,
            bootstrap=self._bootstrap,
            clock=self._clock,
            random=self._random,
            report=self._report,
        )
        # Its first turn comes later: the driver is in the middle of its effects, and takes no
        # append there.
        self._active_task = self._tasks.create_task(self.active.run())
        self._tell_leader_changed()

    def follow(self, epoch: int, leader_id: int | None) -> None:
        self._end_active()
        self._tell_leader_changed()

    def voters_changed(self) -> None:
        self._look_at_controllers()

    def stopped(self, error: BaseException | None) -> None:
        self._end_active()
        if error is None:
            self._stopped.set_result(None)
        else:
            self._stopped.set_exception(error)
            # Those who run or stop the replica hear of it; nobody has to.
            self._stopped.exception()

    def _look_at_controllers(self) -> None:
        machine = self.driver.machine
        controllers = frozenset(machine.voter_set.ids())
        if machine.leader_id is not None:
            controllers |= {machine.leader_id}
        if controllers != self._controllers:
            self._controllers = controllers
            self.on_controllers_changed(controllers)

    def _tell_leader_changed(self) -> None:
        self._look_at_controllers()
        news, self._leader_news = self._leader_news, self._loop.create_future()
        news.set_result(None)

    def _end_active(self) -> None:
        if self.active is not None and self._active_task is not None:
            self.active.end()
            self._active_task.cancel()
            self.active = self._active_task = None


def _log_config(config: BrokerConfig) -> MetadataLogConfig:
    segment_bytes = config.get_optional_int("internal.metadata.log.segment.bytes")
    return MetadataLogConfig(
        metadata_log_segment_bytes=(
            config.get_int("metadata.log.segment.bytes") if segment_bytes is None else segment_bytes
        ),
        metadata_log_segment_ms=config.get_int("metadata.log.segment.ms"),
        metadata_max_retention_bytes=config.get_int("metadata.max.retention.bytes"),
        metadata_max_retention_ms=config.get_int("metadata.max.retention.ms"),
    )
