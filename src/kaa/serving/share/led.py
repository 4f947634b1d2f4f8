"""One share partition at its leader, with what its machine needs: state loaded, changes written,
deadlines kept, and those woken who wait for records.

It is loaded once; requests that come meanwhile wait for the same load. If that fails it is dropped
with an error, and the next who comes loads again: state that could not be read is never taken for
no state.

Changes are written one write after the other, each with everything that gathered during the one
before. So a slow coordinator delays the acknowledgements of this share partition and nothing else,
and writes arrive in the order in which things happened. A request is answered when its change is
written; if it was not, the records are as before and the answer says so.

A lock that runs out needs no request, so its write has nobody to answer to. If it fails, the
records are available all the same; what may be lost with the leader is one delivery in the count.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.share.machine import StateChange
from kaa.coordinators.share.state import UNKNOWN_START_OFFSET
from kaa.log.errors import LogError
from kaa.replication.partition import Awaited
from kaa.serving.share.machine import SharePartition
from kaa.serving.share.starting import start_offset
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable
    from concurrent.futures import Executor
    from typing import Any

    from kaa.coordinators.share.persister import Persister
    from kaa.coordinators.share.state import SharePartitionKey
    from kaa.replication.partition import Partition
    from kaa.serving.share.machine import Acknowledgement, DeliveryChange
    from kaa.serving.share.settings import ShareGroupSettings
    from kaa.serving.view import NodeView

# What the share coordinator answers, as a member gets it.
_FOR_MEMBERS: Final = {
    Errors.NOT_COORDINATOR: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_NOT_AVAILABLE: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NETWORK_EXCEPTION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.REQUEST_TIMED_OUT: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.GROUP_ID_NOT_FOUND: Errors.GROUP_ID_NOT_FOUND,
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.FENCED_LEADER_EPOCH: Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.FENCED_STATE_EPOCH: Errors.NOT_LEADER_OR_FOLLOWER,
}
# Answers after which this leader knows that its state is not the one that counts.
_FENCED: Final = frozenset(
    {
        Errors.FENCED_LEADER_EPOCH,
        Errors.FENCED_STATE_EPOCH,
        Errors.GROUP_ID_NOT_FOUND,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        # It has none: the group was deleted, and may have started over under its name.
        Errors.INVALID_REQUEST,
    }
)


def error_for_members(error: Errors) -> Errors:
    """An answer of the share coordinator as a member gets it."""
    return _FOR_MEMBERS.get(error, Errors.UNKNOWN_SERVER_ERROR)


class _Unwritten(NamedTuple):
    change: DeliveryChange
    # None if nobody waits for it.
    done: asyncio.Future[Errors] | None


class LedHost(Protocol):
    """Who has a share partition."""

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts a task that ends with the broker."""
        ...

    def dropped(self, led: LedSharePartition) -> None:
        """It is of no use any more."""
        ...

    def written(self, led: LedSharePartition) -> None:
        """Nothing is left to be written."""
        ...

    def due(self, led: LedSharePartition) -> None:
        """Has `expire` called soon: locks have run out, maybe those of thousands at once."""
        ...


class LedSharePartition:
    """A share partition with its state loaded and its changes written. The manager makes it, and
    drops it by `drop`; await `load` before anything else.
    """

    def __init__(
        self,
        view: NodeView,
        executor: Executor,
        persister: Persister,
        key: SharePartitionKey,
        partition: Partition,
        settings: ShareGroupSettings,
        host: LedHost,
    ) -> None:
        self._view = view
        self._executor = executor
        self._persister = persister
        self._host = host
        self.key = key
        self.partition = partition
        self.settings = settings
        self.leader_epoch = partition.leader_epoch
        self._state_epoch = 0
        self.machine = SharePartition(settings.partitions)
        self.is_loaded = False
        # Set when it was dropped: what those get who still wait here.
        self.error: Errors | None = None
        self._waiters: dict[Callable[[], None], None] = {}
        # Those who have not looked yet since something came, None if nobody has to; and whether
        # more came meanwhile.
        self._woken: deque[Callable[[], None]] | None = None
        self._is_more_new = False
        self._unwritten: list[_Unwritten] = []
        self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None

    @property
    def is_idle(self) -> bool:
        """Nothing is left to be written."""
        return not self._is_writing and not self._unwritten

    # --- loading, dropping

    async def load(self) -> None:
        try:
            state = await self._persister.read(self.key, self.leader_epoch)
            begin = state.start_offset
            if begin == UNKNOWN_START_OFFSET:
                reset = self.settings().offset_reset
                begin = await start_offset(self._view.clock, self._executor, self.partition, reset)
            if self.error is not None:
                return
            self._state_epoch = state.state_epoch
            self.machine.load(begin, state.batches)
        except CoordinatorError as refusal:
            error = error_for_members(refusal.error)
            if error is Errors.COORDINATOR_NOT_AVAILABLE:
                # Clients know it from coordinators alone; of this one they try again.
                error = Errors.REPLICA_NOT_AVAILABLE
            self.drop(error)
        except LogError as failure:
            self.drop(failure.error)
        except ValueError:
            self.drop(Errors.UNKNOWN_SERVER_ERROR)
        except Exception:
            # It is reported; nobody must wait for what will not come.
            self.drop(Errors.UNKNOWN_SERVER_ERROR)
            raise
        else:
            self.is_loaded = True
            self.wake()
            # Those who asked for it may be gone.
            self._host.written(self)

    def drop(self, error: Errors) -> None:
        """This broker has no say in it any more, or never had the state."""
        if self.error is not None:
            return
        self.error = error
        if self._timer is not None:
            self._timer.cancel()
        unwritten, self._unwritten = self._unwritten, []
        for one in unwritten:
            _answer(one, error)
        self._host.dropped(self)
        self.wake()

    # --- changes

    def acknowledge(
        self, member_id: str, acknowledgements: Iterable[Acknowledgement]
    ) -> asyncio.Future[Errors]:
        """Answered when it is written. AcknowledgementError if it makes no sense."""
        now_ms = self._view.clock.monotonic_ms()
        change = self.machine.acknowledge(member_id, acknowledgements, now_ms)
        self.keep_deadline()
        return self._write(change)

    def release(self, member_id: str) -> asyncio.Future[Errors]:
        """Gives back what a member holds. AcknowledgementError if it cannot be given back now."""
        return self._write(self.machine.release(member_id))

    def _write(self, change: DeliveryChange) -> asyncio.Future[Errors]:
        done: asyncio.Future[Errors] = self._view.loop.create_future()
        if not change.batches:
            # Locks were renewed, or everything was done with before.
            done.set_result(Errors.NONE)
            return done
        self._enqueue(_Unwritten(change, done))
        return done

    def _enqueue(self, one: _Unwritten) -> None:
        self._unwritten.append(one)
        if not self._is_writing:
            self._is_writing = True
            self._host.begin(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._unwritten and self.error is None:
                some, self._unwritten = self._unwritten, []
                self._written(some, await self._store(some))
        finally:
            self._is_writing = False
        self._host.written(self)

    async def _store(self, some: list[_Unwritten]) -> Errors:
        machine = self.machine
        change = StateChange(
            self._state_epoch,
            self.leader_epoch,
            machine.start_offset,
            machine.delivery_complete_count,
            tuple(batch for one in some for batch in one.change.batches),
        )
        try:
            await self._persister.write(self.key, change)
        except CoordinatorError as refusal:
            return refusal.error
        except Exception:
            self.drop(Errors.UNKNOWN_SERVER_ERROR)
            self._written(some, Errors.UNKNOWN_SERVER_ERROR)
            raise
        return Errors.NONE

    def _written(self, some: list[_Unwritten], outcome: Errors) -> None:
        error = outcome if outcome is Errors.NONE else error_for_members(outcome)
        if self.error is not None:
            # Dropped meanwhile. What was written was written under an epoch that counted.
            for one in some:
                _answer(one, error if error is Errors.NONE else self.error)
            return
        for one in some:
            self.machine.finish(one.change, is_written=error is Errors.NONE)
            _answer(one, error)
        if outcome in _FENCED:
            self.drop(error)
        else:
            self.keep_deadline()
            self.wake()

    # --- deadlines

    def keep_deadline(self) -> None:
        """Comes back when the first lock runs out."""
        deadline_ms = self.machine.next_deadline_ms
        if deadline_ms == self._timer_ms or self.error is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_ms = None, deadline_ms
        if deadline_ms is not None:
            wait_ms = max(0, deadline_ms - self._view.clock.monotonic_ms())
            self._timer = self._view.loop.call_later(wait_ms / 1000, self._host.due, self)

    def expire(self) -> None:
        """Makes records available whose locks have run out."""
        if self.error is not None:
            return
        if self._timer is not None:
            # Locks that were given back meanwhile may have left a later deadline.
            self._timer.cancel()
        self._timer = self._timer_ms = None
        change = self.machine.expire(self._view.clock.monotonic_ms())
        if change is not None:
            self._enqueue(_Unwritten(change, None))
            self.wake()
        self.keep_deadline()

    # --- who waits for records

    def next_offset(self) -> int | None:
        """Where to read; None if nothing can be handed out."""
        log = self.partition.log
        if not self.is_loaded or log is None:
            return None
        machine = self.machine
        machine.log_start_moved(log.log_start_offset)
        if not machine.make_room():
            return None
        return machine.next_fetch_offset()

    def _has_more(self) -> bool:
        """Whether one who looks may find something."""
        log, offset = self.partition.log, self.next_offset()
        if log is None or offset is None:
            return False
        return offset < log.end_offset(self.settings().isolation)

    def wait(self, waiter: Callable[[], None], awaited: Awaited = Awaited.HIGH_WATERMARK) -> None:
        self._waiters[waiter] = None
        self.partition.wait(self.wake, awaited)

    def forget(self, waiter: Callable[[], None]) -> None:
        self._waiters.pop(waiter, None)
        if not self._waiters:
            self.partition.forget(self.wake)

    def wake(self) -> None:
        """Something may be available, or it is over. If it is over all look. Or else they look one
        after the other, in the order in which they came, and only for as long as something is
        left: of a hundred members who wait, a few get all there is.
        """
        if self.error is not None:
            for waiter in tuple(self._waiters):
                waiter()
            return
        if self._woken is None:
            self._woken = deque(self._waiters)
            self._wake_next()
        else:
            # First those who have not looked yet: one who wants more than there is must not be the
            # only one who looks, however often something comes.
            self._is_more_new = True

    def _wake_next(self) -> None:
        woken = self._woken
        assert woken is not None
        while self._has_more():
            if not woken and self._is_more_new:
                self._is_more_new = False
                woken.extend(self._waiters)
            if not woken:
                break
            waiter = woken.popleft()
            if waiter in self._waiters:
                waiter()
                # The next one after it has looked.
                self._view.loop.call_soon(self._wake_next)
                return
        self._woken, self._is_more_new = None, False


def _answer(one: _Unwritten, error: Errors) -> None:
    if one.done is not None and not one.done.done():
        one.done.set_result(error)
