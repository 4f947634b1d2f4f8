"""The active controller: exists while this node leads the quorum, and decides.

It is made when the quorum says that this node leads an epoch, and dropped when it no longer leads.
In between it takes commands one at a time, has the machine decide on the newest image, writes the
records and answers when they are committed and published on this node. A command that writes
nothing is answered when everything before it is committed, because it may have been decided by
something that is not.

Work on many partitions goes in pieces, with turns for others in between, who cannot decide anything
meanwhile. What is left of it when the leadership ends is dropped: nothing that was not written
counts, and those who wait get NOT_CONTROLLER and ask the next controller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from kaa.controller.brokers import fence_stale_broker
from kaa.controller.elections import balance_leaders, elect_unclean_leaders
from kaa.controller.machine import ControllerMachine
from kaa.controller.reassignments import list_partition_reassignments
from kaa.controller.result import ControllerError, ControllerResult
from kaa.controller.state import ControllerSettings
from kaa.controller.writing import batches_of
from kaa.model.pieces import in_pieces
from kaa.wire.errors import Errors
from kaa.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kaa.wire.messages.metadata_cluster import NoOpRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from kaa.config.server import BrokerConfig
    from kaa.controller.loader import MetadataLoader
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.model.seams import Clock
    from kaa.quorum.driver import QuorumDriver
    from kaa.wire.schema import MetadataRecord, Request

    Decide = Callable[[ControllerState], ControllerResult[bool] | Pieces[ControllerResult[bool]]]

Answer = TypeVar("Answer")
Found = TypeVar("Found")


class _Waiting(NamedTuple):
    """An answer that leaves when the log is committed up to and including `offset`."""

    offset: int
    answer: asyncio.Future[None]


class _Written(NamedTuple):
    """A batch of this leader: its last offset, and what is in it."""

    last_offset: int
    records: list[MetadataRecord]


class ActiveController:
    """Takes commands while this node leads the quorum. `run` it in a task; `end` it when the node
    no longer leads, which refuses all that wait.
    """

    def __init__(
        self,
        epoch: int,
        *,
        config: BrokerConfig,
        cluster_id: str,
        driver: QuorumDriver,
        loader: MetadataLoader,
        bootstrap: list[MetadataRecord],
        clock: Clock,
        random: Random,
        report: Callable[[str], None],
    ) -> None:
        self.epoch = epoch
        self._config = config
        self._driver = driver
        self._loader = loader
        self._bootstrap = bootstrap
        self._clock = clock
        self._report = report
        self._machine = ControllerMachine(
            ControllerSettings(config.node_id, cluster_id, config), random, driver
        )
        self._loop = asyncio.get_running_loop()
        # Held by the command that decides: the newest image is not changed under it.
        self._turn = asyncio.Lock()
        # Done when commands are taken: the newest image is there, and what a controller writes
        # first is committed.
        self.activated: asyncio.Future[None] = self._loop.create_future()
        self._waiting: deque[_Waiting] = deque()
        # What this leader has written and is not committed yet.
        self._written: deque[_Written] = deque()
        self._is_ended = False

    # --- life

    async def run(self) -> None:
        """Takes over, then does what is done by the clock; until it is cancelled."""
        try:
            await self._activate()
        except ControllerError as error:
            self._report(f"cannot write the first records of epoch {self.epoch}: {error}")
            self._give_up()
            return
        async with asyncio.TaskGroup() as tasks:
            for interval_ms, decide in self._duties():
                tasks.create_task(self._every(interval_ms, decide))

    async def _activate(self) -> None:
        async with self._turn:
            result = await self._in_turns(self._take_over())
            answer = await self._in_turns(self._write(result))
        if answer is not None:
            await answer
        if not self.activated.done():
            self.activated.set_result(None)

    def _take_over(self) -> Pieces[ControllerResult[None]]:
        return self._machine.activate(
            self._loader.image,
            self._bootstrap,
            is_transaction_open=self._loader.is_in_transaction,
            now_ms=self._driver.monotonic_ms(),
            registration_offsets=self._loader.registration_offsets,
        )

    def end(self) -> None:
        """Forgets what is not committed, and tells those who wait for it."""
        self._is_ended = True
        self._machine.deactivate()
        self._written.clear()
        if not self.activated.done():
            self.activated.cancel()
        while self._waiting:
            answer = self._waiting.popleft().answer
            if not answer.done():
                answer.set_exception(ControllerError(Errors.NOT_CONTROLLER))
                # Some wait for nothing but the end of it.
                answer.exception()

    # --- what the quorum tells

    def committed(self, last_offset: int) -> list[MetadataRecord] | None:
        """The records of the committed batch that ends here, if this leader wrote it."""
        records = None
        while self._written and self._written[0].last_offset <= last_offset:
            written = self._written.popleft()
            if written.last_offset == last_offset:
                records = written.records
        return records

    def published(self, offset: int) -> None:
        """Everything below `offset` is committed, and this node follows it."""
        while self._waiting and self._waiting[0].offset < offset:
            answer = self._waiting.popleft().answer
            if not answer.done():
                answer.set_result(None)

    # --- commands

    async def submit(self, request: Request[Answer], context: ControllerRequestContext) -> Answer:
        """The answer to a command; ControllerError if it is refused as a whole."""
        if not self.activated.done():
            await asyncio.wait([self.activated])
        if isinstance(request, ListPartitionReassignmentsRequest):
            self._check_active()
            listing = list_partition_reassignments(self._loader.image, request)
            return cast("Answer", await self._in_turns(listing))
        async with self._turn:
            self._check_active()
            response, answer = await self._in_turns(self._execute(request, context))
        if answer is not None:
            await answer
        return response

    def _execute(
        self, request: Request[Answer], context: ControllerRequestContext
    ) -> Pieces[tuple[Answer, asyncio.Future[None] | None]]:
        result: ControllerResult[Answer] = yield from self._machine.decide(
            request,
            context,
            now_ms=self._driver.monotonic_ms(),
            next_offset=self._driver.log.end_offset,
        )
        answer = yield from self._write(result)
        self._machine.written(result, self._driver.log.end_offset - 1)
        return result.response, answer

    async def _in_turns(self, pieces: Pieces[Found]) -> Found:
        """Does work with turns for others in between, who cannot decide anything meanwhile.

        What is in the log must be in the image too, whether anybody waits for it or not: one that
        is cancelled leaves when the work is done.
        """
        cancelled: asyncio.CancelledError | None = None
        try:
            while True:
                try:
                    next(pieces)
                except StopIteration as stop:
                    found: Found = stop.value
                    return found
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError as error:
                    cancelled = error
                self._check_active()
        finally:
            if cancelled is not None:
                raise cancelled

    def _check_active(self) -> None:
        if self._is_ended:
            raise ControllerError(Errors.NOT_CONTROLLER)

    def _write(self, result: ControllerResult[Any]) -> Pieces[asyncio.Future[None] | None]:
        """Writes and applies; the future tells when all of it is committed, None if it is."""
        batches = yield from batches_of(
            result,
            self._machine.state.image.features,
            epoch=self.epoch,
            timestamp=self._clock.wall_ms(),
        )
        if result.kraft_version is not None:
            self._expect(self._driver.raise_kraft_version(self.epoch, result.kraft_version))
        if not batches:
            return self._answer_at(self._waiting[-1].offset) if self._waiting else None
        answer = None
        for batch in batches:
            self._expect(self._driver.append(self.epoch, batch.data))
            last_offset = self._driver.log.end_offset - 1
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
            self._give_up()
            raise ControllerError(Errors.NOT_CONTROLLER)

    def _give_up(self) -> None:
        """Lets another replica lead, and those who wait here ask it."""
        if not self._is_ended:
            self.end()
            self._driver.resign(self.epoch)

    # --- by the clock

    def _duties(self) -> Iterator[tuple[int, Decide]]:
        config = self._config
        yield max(1, config.get_int("broker.session.timeout.ms") // 8), fence_stale_broker
        if config.get_boolean("auto.leader.rebalance.enable"):
            interval_ms = config.get_int("leader.imbalance.check.interval.seconds") * 1000
            yield interval_ms, balance_leaders
        yield config.get_int("unclean.leader.election.interval.ms"), elect_unclean_leaders
        idle_ms = config.get_int("metadata.max.idle.interval.ms")
        if idle_ms > 0:
            yield idle_ms, _write_no_op

    async def _every(self, interval_ms: int, decide: Decide) -> None:
        while True:
            due = self._loop.time() + interval_ms / 1000
            await asyncio.sleep(interval_ms / 1000)
            late_ms = int((self._loop.time() - due) * 1000)
            if decide is fence_stale_broker and late_ms > interval_ms and not self._is_ended:
                # This process was paused: what brokers sent meanwhile is still to be read.
                self._machine.state.heartbeats.extend(late_ms)
            try:
                while await self.decide_unasked(decide):
                    pass
            except ControllerError:
                # It does not lead any more, and is about to learn so.
                return
            except Exception as error:  # noqa: BLE001  The other duties go on, and this one too.
                self._report(f"a duty of the controller failed, it is tried again: {error!r}")

    async def decide_unasked(self, decide: Decide) -> bool:
        """Lets a duty decide, and writes what it decided; whether there may be more to do."""
        async with self._turn:
            self._check_active()
            return await self._in_turns(self._decide_unasked(decide))

    def _decide_unasked(self, decide: Decide) -> Pieces[bool]:
        state = self._machine.state
        state.now_ms = self._driver.monotonic_ms()
        state.next_offset = self._driver.log.end_offset
        result = yield from in_pieces(decide(state))
        if result.records:
            yield from self._write(result)
        return result.response


def _write_no_op(_: ControllerState) -> ControllerResult[bool]:
    return ControllerResult([NoOpRecord()], False)
