"""The controller of this node: metadata log, committed image, and, while it leads, the decisions.

``LocalController`` puts the parts together: the driver of the quorum feeds it committed records,
from which the committed image comes, and tells it when it leads; then it takes commands, has the
machine decide, writes the records and answers when they are committed. A command that writes
nothing is answered when everything before it is committed, because it may have been decided by
something that is not.

Everyone else on the node reads ``image`` and is told by ``on_image`` what changed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kaa.controller.bootstrap import bootstrap_records, read_bootstrap_records
from kaa.controller.brokers import fence_stale_broker
from kaa.controller.elections import balance_leaders, elect_unclean_leaders
from kaa.controller.feature_table import METADATA_VERSION
from kaa.controller.loader import MetadataLoader
from kaa.controller.machine import ControllerMachine
from kaa.controller.pieces import finish
from kaa.controller.port import ControllerPort
from kaa.controller.reassignments import list_partition_reassignments
from kaa.controller.refusals import error_response
from kaa.controller.result import ControllerError, Result
from kaa.controller.snapshotter import Snapshotter
from kaa.controller.state import ControllerSettings
from kaa.controller.writing import batches_of
from kaa.log.errors import LogError
from kaa.quorum.metadata_log import MetadataLogConfig, open_metadata_log
from kaa.quorum.node import build_driver
from kaa.quorum.snapshots import read_bootstrap
from kaa.wire.errors import Errors
from kaa.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from kaa.wire.messages.metadata_cluster import NoOpRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor
    from random import Random

    from kaa.config.server import BrokerConfig
    from kaa.controller.image import ClusterImage, Delta
    from kaa.controller.pieces import Pieces
    from kaa.controller.state import ControllerState, RequestContext
    from kaa.log.dirs import LogDirectory
    from kaa.quorum.driver import QuorumDriver
    from kaa.quorum.log_view import OffsetAndEpoch
    from kaa.quorum.node import QuorumNode
    from kaa.quorum.replicated_state import Clock, CommittedBatch
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.wire.schema import MetadataRecord, Request

Found = TypeVar("Found")

_CLEAN_INTERVAL_MS = 60_000
# How long a duty waits for a command that is being decided.
_BUSY_SECONDS = 0.01


class _Waiting(NamedTuple):
    """An answer that leaves when the log is committed up to and including ``offset``."""

    offset: int
    answer: asyncio.Future[None]


class _Written(NamedTuple):
    """A batch of this leader: its last offset, and what is in it."""

    last_offset: int
    records: list[MetadataRecord]


class LocalController(ControllerPort):
    """See the module. ``start``, then ``run`` in a task, then ``stop``."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        node: QuorumNode,
        directory: LogDirectory,
        executor: Executor,
        clock: Clock,
        random: Random,
        on_image: Callable[[ClusterImage, Delta], None],
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._node = node
        self._directory = directory
        self._executor = executor
        self._clock = clock
        self._random = random
        self._on_image = on_image
        self._report = report
        self._loader = MetadataLoader()
        self._machine = ControllerMachine(
            ControllerSettings(config.node_id, node.cluster_id, config), random
        )
        self._bootstrap: list[MetadataRecord] = []
        # Held by the command that decides: the newest image is not changed under it.
        self._turn = asyncio.Lock()
        self._waiting: deque[_Waiting] = deque()
        # What this leader has written and is not committed yet.
        self._written: deque[_Written] = deque()
        # The epoch that this node leads; None while it does not.
        self._epoch: int | None = None
        self._driver: QuorumDriver | None = None
        self._snapshotter: Snapshotter | None = None
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._activated: asyncio.Future[None] = loop.create_future()
        self._stopped: asyncio.Future[None] = loop.create_future()

    @property
    def image(self) -> ClusterImage:
        """The committed image, to read."""
        return self._loader.image

    @property
    def committed_offset(self) -> int:
        """The last offset in the image; a broker tells it in its heartbeats."""
        return self._loader.last_offset

    @property
    def driver(self) -> QuorumDriver:
        assert self._driver is not None, "the controller was not started"
        return self._driver

    # --- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recovers the metadata log, joins the quorum, and returns when the node is active."""
        opened = await self._loop.run_in_executor(
            self._executor,
            open_metadata_log,
            self._directory,
            _log_config(self._config),
            self._clock.now_ms(),
            self._random,
        )
        files = self._directory.files
        values = read_bootstrap(files, self._directory.path)
        self._bootstrap = bootstrap_records() if values is None else read_bootstrap_records(values)
        self._driver = build_driver(
            opened,
            self._node,
            state=self,
            files=files,
            clock=self._clock,
            executor=self._executor,
            loop=self._loop,
            random=self._random,
            report=self._report,
        )
        self._snapshotter = Snapshotter(
            self._driver,
            self._loader,
            self._clock,
            self._executor,
            self._report,
            bytes_max=self._config.get_int("metadata.log.max.record.bytes.between.snapshots"),
            interval_ms=self._config.get_int("metadata.log.max.snapshot.interval.ms"),
        )
        snapshot = None
        if opened.snapshot_id is not None and opened.snapshot is not None:
            snapshot = (opened.snapshot_id, opened.snapshot)
        self._driver.start(snapshot)
        await asyncio.wait({self._activated, self._stopped}, return_when=asyncio.FIRST_COMPLETED)
        if self._stopped.done():
            await self._stopped

    async def run(self) -> None:
        """Timers; ends when the controller stops, with the error that stopped it, if any."""
        config = self._config
        session_ms = config.get_int("broker.session.timeout.ms")
        idle_ms = config.get_int("metadata.max.idle.interval.ms")
        assert self._snapshotter is not None
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(_every(max(1, session_ms // 8), self._fence_stale_brokers)),
                tasks.create_task(_every(_CLEAN_INTERVAL_MS, self._clean)),
                tasks.create_task(self._snapshotter.run()),
            ]
            for interval_ms, work in self._elections():
                running.append(tasks.create_task(_every(interval_ms, work)))
            if idle_ms > 0:
                running.append(tasks.create_task(_every(idle_ms, self._write_no_op)))
            try:
                await asyncio.wait({self._stopped})
            finally:
                for task in running:
                    task.cancel()
        await self._stopped

    async def stop(self, timeout_ms: int = 5_000) -> None:
        """Hands the leadership over, writes a snapshot of what is new, and closes the log."""
        if self._driver is None:
            return
        if self._snapshotter is not None and not self._driver.is_stopped:
            await self._snapshotter.take_or_report()
        self._driver.shut_down(timeout_ms)
        await asyncio.wait({self._stopped})
        log = self._driver.log
        if self._stopped.exception() is not None:
            log.abandon()
            return
        await self._loop.run_in_executor(self._executor, log.close, self._clock.now_ms())

    # --- commands --------------------------------------------------------------------------------

    async def submit(self, request: Request, context: RequestContext) -> Any:
        try:
            if isinstance(request, ListPartitionReassignmentsRequest):
                self._check_active()
                return list_partition_reassignments(self.image, request)
            return await self._decide_and_write(request, context)
        except ControllerError as refusal:
            return error_response(request, context.api_version, refusal.error, refusal.message)

    async def _decide_and_write(self, request: Request, context: RequestContext) -> Any:
        async with self._turn:
            self._check_active()
            response, answer = await self._in_turns(self._execute(request, context))
        if answer is not None:
            await answer
        return response

    def _execute(
        self, request: Request, context: RequestContext
    ) -> Pieces[tuple[Any, asyncio.Future[None] | None]]:
        result = yield from self._machine.decide(
            request,
            context,
            now_ms=self.driver.monotonic_ms(),
            next_offset=self.driver.log.end().offset,
        )
        answer = yield from self._write(result)
        if isinstance(request, BrokerHeartbeatRequest):
            self._note_controlled_shutdown(request.broker_id)
        return result.response, answer

    async def _in_turns(self, pieces: Pieces[Found]) -> Found:
        """Does work with turns for others in between, who cannot decide anything meanwhile."""
        epoch = self._epoch
        while True:
            try:
                next(pieces)
            except StopIteration as stop:
                found: Found = stop.value
                return found
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                # What is in the log must be in the image too, whoever still waits for it.
                finish(pieces)
                raise
            if self._epoch != epoch:
                raise ControllerError(Errors.NOT_CONTROLLER)

    def _note_controlled_shutdown(self, broker_id: int) -> None:
        broker = self._machine.state.image.brokers.get(broker_id)
        if broker is not None and broker.is_in_controlled_shutdown and not broker.is_fenced:
            self._machine.state.heartbeats.begin_controlled_shutdown(
                broker_id, self.driver.log.end().offset - 1
            )

    def _check_active(self) -> None:
        if self._epoch is None or not self._machine.is_active:
            raise ControllerError(Errors.NOT_CONTROLLER)

    def _write(self, result: Result[Any]) -> Pieces[asyncio.Future[None] | None]:
        """Writes and applies; the future tells when all of it is committed, None if it is."""
        epoch = self._epoch
        assert epoch is not None
        batches = yield from batches_of(
            result,
            self._machine.state.image.features,
            epoch=epoch,
            timestamp=self._clock.now_ms(),
        )
        if result.kraft_version is not None:
            self._expect(self.driver.raise_kraft_version(epoch, result.kraft_version))
            self._machine.state.kraft_version = result.kraft_version
        if not batches:
            return self._answer_at(self._waiting[-1].offset) if self._waiting else None
        answer = None
        for batch in batches:
            self._expect(self.driver.append(epoch, batch.data))
            last_offset = self.driver.log.end().offset - 1
            # Noted before the next turn, in which it may be committed.
            self._written.append(_Written(last_offset, batch.records))
            if batch is batches[-1]:
                answer = self._answer_at(last_offset)
            yield from self._machine.replay(batch.records)
        return answer

    def _answer_at(self, offset: int) -> asyncio.Future[None]:
        answer = self._loop.create_future()
        self._waiting.append(_Waiting(offset, answer))
        return answer

    def _expect(self, offset: int | None) -> None:
        """Gives up where nothing was written: the newest image would be ahead of the log."""
        if offset is None:
            self._deactivate()
            raise ControllerError(Errors.NOT_CONTROLLER)

    # --- timers ----------------------------------------------------------------------------------

    def _write_no_op(self) -> None:
        if self._machine.is_active and not self._turn.locked():
            self._write_unasked(Result([NoOpRecord()], None))

    def _elections(self) -> Iterator[tuple[int, Callable[[], None]]]:
        config = self._config
        if config.get_boolean("auto.leader.rebalance.enable"):
            interval_ms = config.get_int("leader.imbalance.check.interval.seconds") * 1000
            yield interval_ms, lambda: self._decide_unasked(balance_leaders)
        yield (
            config.get_int("unclean.leader.election.interval.ms"),
            lambda: self._decide_unasked(elect_unclean_leaders),
        )

    def _fence_stale_brokers(self) -> None:
        self._decide_unasked(fence_stale_broker)

    def _decide_unasked(self, decide: Callable[[ControllerState], Result[bool]]) -> None:
        """Lets a periodic duty decide, and again if it says that there may be more to do."""
        if not self._machine.is_active:
            return
        if self._turn.locked():
            self._loop.call_later(_BUSY_SECONDS, self._decide_unasked, decide)
            return
        state = self._machine.state
        state.now_ms = self.driver.monotonic_ms()
        state.next_offset = self.driver.log.end().offset
        result = decide(state)
        self._write_unasked(result)
        if result.response:
            self._loop.call_soon(self._decide_unasked, decide)

    def _clean(self) -> None:
        try:
            self.driver.log.clean(self._clock.now_ms())
        except (OSError, LogError) as error:
            self._report(f"cannot remove old metadata: {error}")

    def _write_unasked(self, result: Result[Any]) -> None:
        """Writes what nobody waits for; a failure has deactivated the controller."""
        if not result.records:
            return
        try:
            answer = finish(self._write(result))
        except ControllerError:
            return
        if answer is not None:
            answer.add_done_callback(lambda done: done.exception())

    # --- what the quorum tells -------------------------------------------------------------------

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, content: SnapshotContent) -> None:
        self._loader.load(snapshot_id, content)

    def commit(self, batch: CommittedBatch) -> None:
        records = None
        while self._written and self._written[0].last_offset <= batch.last_offset:
            written = self._written.popleft()
            if written.last_offset == batch.last_offset:
                records = written.records
        self._loader.commit(batch, records)

    def committed_up_to(self, offset: int) -> None:
        """Everything below ``offset`` is in the image: tell the node, then the senders."""
        image = self._loader.image
        if METADATA_VERSION in image.features:
            delta = image.take_delta()
            if delta:
                self._on_image(image, delta)
        while self._waiting and self._waiting[0].offset < offset:
            answer = self._waiting.popleft().answer
            if not answer.done():
                answer.set_result(None)
        if self._snapshotter is not None:
            self._snapshotter.committed()

    def lead(self, epoch: int) -> None:
        # Not at once: the driver is in the middle of its effects, and takes no append there.
        self._loop.call_soon(self._activate, epoch)

    def follow(self, epoch: int, leader_id: int | None) -> None:
        self._deactivate()

    def stopped(self, error: BaseException | None) -> None:
        self._deactivate()
        if error is None:
            self._stopped.set_result(None)
        else:
            self._stopped.set_exception(error)
            # Whoever runs or stops the controller hears of it; nobody has to.
            self._stopped.exception()

    def _activate(self, epoch: int) -> None:
        if self.driver.is_stopped or self.driver.machine.epoch != epoch:
            return
        self._epoch = epoch
        result = self._machine.activate(
            self._loader.image,
            self._bootstrap,
            kraft_version=self.driver.kraft_version,
            voter_count=len(self.driver.machine.voter_set),
            is_transaction_open=self._loader.is_in_transaction,
            now_ms=self.driver.monotonic_ms(),
        )
        try:
            answer = finish(self._write(result))
        except ControllerError as error:
            self._report(f"cannot write the first records of epoch {epoch}: {error}")
            return
        if answer is None:
            self._set_activated()
        else:
            answer.add_done_callback(self._set_activated)

    def _set_activated(self, written: asyncio.Future[None] | None = None) -> None:
        if written is not None and written.exception() is not None:
            return
        if not self._activated.done():
            self._activated.set_result(None)

    def _deactivate(self) -> None:
        """Forgets what is not committed, and tells those who wait for it."""
        self._epoch = None
        self._machine.deactivate()
        self._written.clear()
        while self._waiting:
            answer = self._waiting.popleft().answer
            if not answer.done():
                answer.set_exception(ControllerError(Errors.NOT_CONTROLLER))


def _log_config(config: BrokerConfig) -> MetadataLogConfig:
    return MetadataLogConfig(
        metadata_log_segment_bytes=config.get_int("metadata.log.segment.bytes"),
        metadata_log_segment_ms=config.get_int("metadata.log.segment.ms"),
        metadata_max_retention_bytes=config.get_int("metadata.max.retention.bytes"),
        metadata_max_retention_ms=config.get_int("metadata.max.retention.ms"),
    )


async def _every(interval_ms: int, work: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        work()
