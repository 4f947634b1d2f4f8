"""Markers: what tells each partition of a transaction how it ended.

A decision stays here until every partition has its marker, or does not exist any more; then the
coordinator is notified. Markers go to the leaders of the partitions, with one request at a time per
broker that takes along what gathered in the meantime, up to a limit: a transaction with very many
partitions is sent in parts, between which the loop serves others. An error that passes is tried
again after a pause. One that says that somebody newer decides drops the decision: it is no longer
this coordinator's. A failure that nobody expected, such as an answer that makes no sense, is
reported and tried again like one that passes: it must neither end the node nor leave a transaction
open.

A transactional id has one decision at a time. Where very many ids have one, because a leader is
missing or slow, `is_full` has the coordinator refuse to decide more, and clients ask again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.transaction.state import TransactionState, by_topic, by_topic_in_pieces
from kaa.limits import (
    TRANSACTION_DECISIONS_UNDER_WAY_MAX,
    TRANSACTION_MARKER_RETRY_SECONDS,
    TRANSACTION_MARKERS_PER_REQUEST_MAX,
)
from kaa.model.nodes import NO_LEADER
from kaa.wire.errors import Errors
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from kaa.coordinators.transaction.machine import Decision
    from kaa.model.topics import PartitionName
    from kaa.wire.messages.k27_write_txn_markers import WriteTxnMarkersResponse

# The partition has its marker, or needs none.
_DONE: Final = frozenset({Errors.NONE, Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT})
# The producer or the coordinator was replaced.
_DROPPED: Final = frozenset({Errors.INVALID_PRODUCER_EPOCH, Errors.TRANSACTION_COORDINATOR_FENCED})


class MarkerPort(Protocol):
    """Where markers go."""

    def leader(self, name: PartitionName) -> int | None:
        """The broker that leads the partition, -1 if none does, None if it does not exist."""
        ...

    async def send(
        self, broker_id: int, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse:
        """OSError if the broker cannot be reached."""
        ...


class _Sending:
    """A decision whose markers are under way."""

    __slots__ = ("decision", "is_dropped", "remaining")

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.remaining = set(decision.transaction.partitions)
        self.is_dropped = False


class MarkerSender:
    """Delivers the markers of decided transactions. `send` takes a decision over and returns at
    once; `run` delivers until the node stops.
    """

    def __init__(
        self,
        port: MarkerPort,
        coordinator_epoch: Callable[[str], int | None],
        complete: Callable[[Decision], Awaitable[object]],
        report: Callable[[str], None],
    ) -> None:
        self._port = port
        self._report = report
        # By transactional id; None if this broker does not coordinate it.
        self._coordinator_epoch = coordinator_epoch
        self._complete = complete
        self._queues: dict[int, asyncio.Queue[tuple[_Sending, frozenset[PartitionName]]]] = {}
        # The last decision about each transactional id, until it is done or dropped.
        self._under_way: dict[str, _Sending] = {}
        # What `run` is to start.
        self._work: asyncio.Queue[Callable[[], Coroutine[object, object, None]]] = asyncio.Queue()

    @property
    def is_full(self) -> bool:
        """Whether so many transactions wait for their markers that no more may be decided."""
        return len(self._under_way) >= TRANSACTION_DECISIONS_UNDER_WAY_MAX

    def send(self, decision: Decision) -> None:
        sending = self._under_way[decision.transactional_id] = _Sending(decision)
        if not sending.remaining:
            self._work.put_nowait(partial(self._finish, sending))
        elif len(sending.remaining) <= TRANSACTION_MARKERS_PER_REQUEST_MAX:
            self._dispatch(sending, frozenset(sending.remaining))
        else:
            rest = _in_order(tuple(sending.remaining))
            self._work.put_nowait(partial(self._dispatch_parts, sending, rest))

    def start(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Has something done beside the sending."""
        self._work.put_nowait(work)

    async def _dispatch_parts(
        self, sending: _Sending, rest: Iterator[PartitionName | None]
    ) -> None:
        some: list[PartitionName] = []
        for name in chain(rest, (None,)):
            if name is not None:
                some.append(name)
                if len(some) < TRANSACTION_MARKERS_PER_REQUEST_MAX:
                    continue
            part, some = frozenset(some), []
            try:
                self._dispatch(sending, part)
            except Exception:
                # The next try goes on after these.
                self._work.put_nowait(partial(self._retry, [(sending, part)]))
                raise
            await asyncio.sleep(0)

    def _dispatch(self, sending: _Sending, partitions: frozenset[PartitionName]) -> None:
        by_broker: dict[int, set[PartitionName]] = defaultdict(set)
        # In an order that does not depend on hashes, so that a run can be repeated.
        for name in sorted(partitions):
            leader = self._port.leader(name)
            if leader is None:
                # It was deleted.
                self._done(sending, name)
            else:
                by_broker[leader].add(name)
        for broker_id, names in by_broker.items():
            queue = self._queues.get(broker_id)
            if queue is None:
                queue = self._queues[broker_id] = asyncio.Queue()
                self._work.put_nowait(partial(self._serve, broker_id, queue))
            queue.put_nowait((sending, frozenset(names)))

    def _done(self, sending: _Sending, name: PartitionName) -> None:
        sending.remaining.discard(name)
        if not sending.remaining and not sending.is_dropped:
            self._work.put_nowait(partial(self._finish, sending))

    def _drop(self, sending: _Sending) -> None:
        """The coordinator of the transaction now finds it in the log."""
        sending.is_dropped = True
        self._forget(sending)

    def _forget(self, sending: _Sending) -> None:
        transactional_id = sending.decision.transactional_id
        if self._under_way.get(transactional_id) is sending:
            del self._under_way[transactional_id]

    async def run(self) -> None:
        """Sends for as long as the broker lives."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                work = await self._work.get()
                tasks.create_task(self._persist(work))

    async def _persist(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Has something done, again if it fails in a way that nobody expected."""
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - one failure must not end the node
                self._report(f"markers of transactions failed, tried again: {error!r}")
                await asyncio.sleep(TRANSACTION_MARKER_RETRY_SECONDS)
            else:
                return

    async def _finish(self, sending: _Sending) -> None:
        """Has the end of the transaction written, again if that fails for now."""
        decision = sending.decision
        while self._coordinator_epoch(decision.transactional_id) is not None:
            try:
                await self._complete(decision)
            except CoordinatorError as refusal:
                if refusal.for_clients().error in {
                    Errors.NOT_COORDINATOR,
                    Errors.COORDINATOR_LOAD_IN_PROGRESS,
                }:
                    break
                await asyncio.sleep(TRANSACTION_MARKER_RETRY_SECONDS)
            else:
                break
        self._forget(sending)

    async def _serve(
        self, broker_id: int, queue: asyncio.Queue[tuple[_Sending, frozenset[PartitionName]]]
    ) -> None:
        while True:
            batch = [await queue.get()]
            count = len(batch[0][1])
            while not queue.empty() and count < TRANSACTION_MARKERS_PER_REQUEST_MAX:
                batch.append(queue.get_nowait())
                count += len(batch[-1][1])
            if broker_id == NO_LEADER:
                self._work.put_nowait(partial(self._retry, batch))
            else:
                try:
                    await self._send(broker_id, batch)
                except Exception:
                    self._work.put_nowait(partial(self._retry, batch))
                    raise

    async def _send(
        self, broker_id: int, batch: list[tuple[_Sending, frozenset[PartitionName]]]
    ) -> None:
        request = WriteTxnMarkersRequest(markers=[])
        sent = []
        for sending, names in batch:
            epoch = self._coordinator_epoch(sending.decision.transactional_id)
            if epoch is None or sending.is_dropped:
                self._drop(sending)
                continue
            request.markers.append(_marker(sending.decision, names, epoch))
            sent.append((sending, names))
        if not sent:
            return
        try:
            response = await self._port.send(broker_id, request)
        except OSError:
            self._work.put_nowait(partial(self._retry, sent))
            return
        failed = []
        for (sending, names), result in zip(sent, response.markers, strict=True):
            errors = {
                (topic.name, partition.partition_index): Errors.of(partition.error_code)
                for topic in result.topics
                for partition in topic.partitions
            }
            again = self._take(sending, names, errors)
            if again:
                failed.append((sending, again))
        if failed:
            self._work.put_nowait(partial(self._retry, failed))

    def _take(
        self,
        sending: _Sending,
        names: frozenset[PartitionName],
        errors: dict[PartitionName, Errors],
    ) -> frozenset[PartitionName]:
        """Notes how it went; returns the partitions to try again."""
        if any(errors.get(name) in _DROPPED for name in names):
            self._drop(sending)
            return frozenset()
        again = frozenset(
            name for name in names if errors.get(name, Errors.REQUEST_TIMED_OUT) not in _DONE
        )
        for name in names - again:
            self._done(sending, name)
        return again

    async def _retry(self, failed: list[tuple[_Sending, frozenset[PartitionName]]]) -> None:
        await asyncio.sleep(TRANSACTION_MARKER_RETRY_SECONDS)
        for sending, names in failed:
            if self._coordinator_epoch(sending.decision.transactional_id) is None:
                self._drop(sending)
            else:
                self._dispatch(sending, names)


def _in_order(names: tuple[PartitionName, ...]) -> Iterator[PartitionName | None]:
    """Sorted when the first one is asked for; None where others may have a turn meanwhile."""
    sorted_names = yield from by_topic_in_pieces(names)
    for topic, numbers in sorted_names.items():
        for number in numbers:
            yield topic, number


def _marker(
    decision: Decision, names: frozenset[PartitionName], coordinator_epoch: int
) -> WritableTxnMarker:
    transaction = decision.transaction
    return WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=transaction.state is TransactionState.PREPARE_COMMIT,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(names).items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction.client_transaction_version,
    )
