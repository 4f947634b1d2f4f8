"""One partition of a coordinator: the driver of its machine.

A shard is loading, active, failed or closed. It is loaded by replaying its partition to the end;
meanwhile every request is told COORDINATOR_LOAD_IN_PROGRESS. It is closed when this broker does not
lead the partition any more; whoever waits is told NOT_COORDINATOR, and the machine is dropped with
all that was not committed. A failed one could not be loaded: another takes its place (`runtime`).

A command runs at once, on the newest state. Its records get the next offsets, are replayed, and
join the batch that is being gathered; the batch is appended at the end of the turn of the loop, or
after the linger. The answer waits in a queue for the high watermark::

    committed      appended, waiting for replicas     gathered
    ...........|.................................|...............|
            high watermark                  log end offset   next offset

If an append is refused, memory goes back to the log end offset, and every answer that depended on
the batch is an error. Commands without records wait as well, for all that was written before them:
what they answer may rest on it. If replicas take too long the answer is an error too, but the
records are in the log and stay.

What is written within a transaction (`write_in_transaction`) goes into batches of its own, which
have the producer's id and epoch. Its end comes as a marker (`end_transaction`), which is appended
and replayed here as well: nobody else writes to the partition.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kaa.coordinators.machine import CoordinatorError, Machine, Result
from kaa.coordinators.records import encode_key, encode_value
from kaa.limits import (
    COORDINATOR_DEADLINES_PER_TURN_MAX,
    COORDINATOR_LATE_MS_MAX,
    COORDINATOR_PATIENCE_MS,
    COORDINATOR_RECORD_OVERHEAD_BYTES_MAX,
    COORDINATOR_RECORDS_PER_SLICE_MAX,
)
from kaa.log.errors import LogError
from kaa.log.log import FetchIsolation
from kaa.log.producer_state import AppendOrigin
from kaa.records.batch import HEADER_BYTES, NO_SEQUENCE
from kaa.records.build import BatchBuilder
from kaa.records.control import (
    ControlRecordType,
    build_end_transaction_batch,
    read_end_transaction_marker,
)
from kaa.records.legacy import iter_upgraded_batches
from kaa.records.record import iter_records
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from kaa.coordinators.machine import Moment, Reply
    from kaa.coordinators.records import RecordTypes
    from kaa.log.producer_state import VerificationGuard
    from kaa.records.batch import CompressionType, RecordBatch
    from kaa.records.control import EndTransactionMarker
    from kaa.replication.partition import Partition

MachineType = TypeVar("MachineType", bound=Machine)

_NO_PRODUCER: Final = -1


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class Settings(NamedTuple):
    """How a shard writes and loads; looked up for every batch, since it can change."""

    # -1: until the loop has nothing else to add.
    linger_ms: int
    commit_timeout_ms: int
    load_bytes: int
    compression_type: CompressionType


class TransactionalWriter(NamedTuple):
    """In whose transaction records are written; the guard says that there is one."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None = None


class Host(Protocol):
    """What a shard needs from its node."""

    loop: asyncio.AbstractEventLoop
    # Reads the log off the loop.
    executor: Executor | None

    def now(self) -> Moment: ...

    def settings(self) -> Settings: ...

    def has_enough_replicas(self, partition: Partition) -> bool: ...

    def report(self, text: str) -> None: ...


class _Waiting:
    """An answer, or an event for the machine, that waits for the high watermark."""

    __slots__ = ("answer", "deadline_ms", "end_offset", "response", "then")

    def __init__(
        self,
        end_offset: int,
        deadline_ms: int,
        answer: asyncio.Future[Any] | None,
        result: Result,
    ) -> None:
        self.end_offset = end_offset
        self.deadline_ms = deadline_ms
        self.answer = answer
        self.response = result.response
        self.then = result.then


class Shard(Generic[MachineType]):
    """See the module's text."""

    def __init__(
        self, partition: Partition, machine: MachineType, types: RecordTypes, host: Host
    ) -> None:
        self.partition = partition
        self.machine = machine
        self.state = ShardState.LOADING
        self.leader_epoch = partition.leader_epoch
        self._types = types
        self._host = host
        self._loop = host.loop
        # The offset of the next record; behind the log end offset by what is gathered.
        self._next_offset = 0
        # What is gathered for the next append, and the offset of its first record.
        self._batch: BatchBuilder | None = None
        self._batch_offset = 0
        # In whose transaction that is.
        self._writer: TransactionalWriter | None = None
        self._flush_handle: asyncio.Handle | None = None
        # In the order of their offsets, which is that of their deadlines.
        self._waiting: deque[_Waiting] = deque()
        self._waiting_timer: asyncio.TimerHandle | None = None
        self._is_advancing = False
        # Looks for deadlines of the machine at `_armed_ms`.
        self._machine_timer: asyncio.TimerHandle | None = None
        self._armed_ms = 0
        # It came late, and waits until the loop has read what came in meanwhile.
        self._is_patient = False

    # --- requests

    def write(
        self, command: Callable[[MachineType, Moment], Result], answer: asyncio.Future[Any]
    ) -> None:
        """Runs the command; `answer` gets its response, or a CoordinatorError."""
        refusal = self._refusal()
        if refusal is None:
            self._run(command, answer)
        else:
            _fail(answer, refusal)

    def write_in_transaction(
        self,
        command: Callable[[MachineType, Moment], Result],
        writer: TransactionalWriter,
        answer: asyncio.Future[Any],
    ) -> None:
        """As `write`; the records count when the transaction of the writer commits."""
        refusal = self._refusal() or self._flush()
        if refusal is None:
            self._writer = writer
            try:
                self._run(command, answer)
                self._flush()
            finally:
                self._writer = None
        else:
            _fail(answer, refusal)

    def end_transaction(
        self,
        producer: TransactionalWriter,
        marker: EndTransactionMarker,
        transaction_version: int,
        answer: asyncio.Future[Any],
    ) -> None:
        """Writes the marker and replays it; `answer` gets NONE, or a CoordinatorError."""
        refusal = self._refusal() or self._flush()
        if refusal is not None:
            _fail(answer, refusal)
            return
        now = self._host.now()
        batch = build_end_transaction_batch(
            marker,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            timestamp=now.wall_ms,
        )
        try:
            self._append(batch, None, transaction_version)
        except LogError as error:
            _fail(answer, error.error)
            return
        self.machine.timeline.move(self._next_offset)
        is_commit = marker.control_type is ControlRecordType.COMMIT
        self.machine.replay_end_transaction(producer.producer_id, is_commit=is_commit)
        self._next_offset += 1
        self._park(answer, Result(response=Errors.NONE), now)
        self._progress()

    def write_unasked(self, command: Callable[[MachineType, Moment], Result]) -> None:
        """Runs a command that no client waits for; the shard is active."""
        self._run(command, None)

    def read(self, query: Callable[[MachineType], Any]) -> Any:
        """The answer to a question about committed state. CoordinatorError refuses it."""
        refusal = self._refusal()
        if refusal is not None:
            raise CoordinatorError(refusal)
        return query(self.machine)

    def _refusal(self) -> Errors | None:
        if self.state is ShardState.ACTIVE:
            return None
        if self.state is ShardState.LOADING:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return Errors.NOT_COORDINATOR

    # --- life

    def _is_closed(self) -> bool:
        return self.state is ShardState.CLOSED

    async def load(self) -> None:
        """Replays the partition in slices, and begins to serve."""
        if self._is_closed():
            return
        try:
            await self._replay_log()
            if not self._is_closed():
                self.state = ShardState.ACTIVE
                self.partition.wait(self._progress)
                self._run(lambda machine, now: machine.loaded(now), None)
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this partition alone.
            if not self._is_closed():
                self._load_failed(error)

    def _load_failed(self, error: Exception) -> None:
        self._end(ShardState.FAILED)
        name = f"{self.partition.topic}-{self.partition.number}"
        self._host.report(
            f"{name} could not be loaded by its coordinator, which will try again: "
            f"{type(error).__name__}: {error}"
        )

    async def _replay_log(self) -> None:
        log = self.partition.leader_log()
        timeline = self.machine.timeline
        offset = log.log_start_offset
        # Counted over batches, which are small where commits came one by one.
        replayed = 0
        timeline.commit(log.high_watermark)
        while not self._is_closed() and offset < log.log_end_offset:
            found = self.partition.read(
                offset, self._host.settings().load_bytes, FetchIsolation.LOG_END, min_one=True
            )
            if found.region is None:
                break
            try:
                data = await self._loop.run_in_executor(self._host.executor, found.region.read)
            finally:
                found.region.release()
            for batch in iter_upgraded_batches(data):
                for _ in self._replay_batch(batch, offset):
                    replayed += 1
                    if replayed % COORDINATOR_RECORDS_PER_SLICE_MAX == 0:
                        await asyncio.sleep(0)
                        if self._is_closed():
                            return
                offset = batch.next_offset
            timeline.commit(log.high_watermark)
        self._next_offset = log.log_end_offset
        timeline.move(self._next_offset)

    def _replay_batch(self, batch: RecordBatch, start_offset: int) -> Iterator[None]:
        """Replays the records from an offset on, one at each step."""
        machine = self.machine
        timeline = machine.timeline
        if batch.is_control:
            timeline.move(batch.base_offset)
            marker = read_end_transaction_marker(batch)
            if marker is not None:
                is_commit = marker.control_type is ControlRecordType.COMMIT
                machine.replay_end_transaction(batch.producer_id, is_commit=is_commit)
            yield
            return
        producer_id = batch.producer_id if batch.is_transactional else _NO_PRODUCER
        for record in iter_records(batch):
            if record.offset >= start_offset:
                found = self._types.decode(record.key, record.value)
                if found is not None:
                    timeline.move(record.offset)
                    machine.replay(record.offset, *found, producer_id, batch.producer_epoch)
            yield

    def close(self) -> None:
        """This broker does not lead the partition any more: nothing uncommitted counts."""
        was_active = self.state is ShardState.ACTIVE
        self._end(ShardState.CLOSED)
        for waiting in self._waiting:
            if waiting.answer is not None:
                _fail(waiting.answer, Errors.NOT_COORDINATOR)
        self._waiting.clear()
        if was_active:
            _answer(self.machine.unloaded())

    def _end(self, state: ShardState) -> None:
        self.state = state
        self.partition.forget(self._progress)
        for handle in (self._flush_handle, self._waiting_timer, self._machine_timer):
            if handle is not None:
                handle.cancel()
        self._batch = None

    # --- commands

    def _run(
        self,
        command: Callable[[MachineType, Moment], Result],
        answer: asyncio.Future[Any] | None,
    ) -> None:
        now = self._host.now()
        timeline = self.machine.timeline
        timeline.move(self._next_offset)
        try:
            result = command(self.machine, now)
            if result.records:
                self._gather(result, now)
        except CoordinatorError as error:
            timeline.revert(self._next_offset)
            if answer is not None and not answer.done():
                answer.set_exception(error)
        except Exception:
            timeline.revert(self._next_offset)
            raise
        else:
            _answer(result.replies)
            self._park(answer, result, now)
        finally:
            self._arm_machine_timer()

    def _gather(self, result: Result, now: Moment) -> None:
        """Adds the records to the batch. CoordinatorError if they cannot be written."""
        encoded = [(encode_key(record.key), encode_value(record)) for record in result.records]
        sizes = [
            len(key) + len(value or b"") + COORDINATOR_RECORD_OVERHEAD_BYTES_MAX
            for key, value in encoded
        ]
        log = self.partition.log
        if log is None:
            raise CoordinatorError(Errors.KAFKA_STORAGE_ERROR)
        bytes_max = log.config.max_message_bytes
        whole = sum(sizes) if result.is_atomic else max(sizes)
        if whole + HEADER_BYTES > bytes_max:
            raise CoordinatorError(Errors.RECORD_LIST_TOO_LARGE)
        if result.is_atomic:
            self._make_room(whole, bytes_max)
        for (key, value), size, record in zip(encoded, sizes, result.records, strict=True):
            if not result.is_atomic:
                self._make_room(size, bytes_max)
            offset = self._next_offset
            if result.is_replayed:
                timeline = self.machine.timeline
                timeline.move(offset)
                writer = self._writer
                self.machine.replay(
                    offset,
                    record.key,
                    record.value,
                    _NO_PRODUCER if writer is None else writer.producer_id,
                    -1 if writer is None else writer.producer_epoch,
                )
            self._builder().append(now.wall_ms, key, value)
            self._next_offset = offset + 1

    def _make_room(self, size: int, bytes_max: int) -> None:
        gathered = self._batch
        if gathered is not None and gathered.size_in_bytes + size > bytes_max:
            refusal = self._flush()
            if refusal is not None:
                # What the command decided rested on what was just taken back.
                raise CoordinatorError(refusal)

    def _builder(self) -> BatchBuilder:
        if self._batch is None:
            settings = self._host.settings()
            writer = self._writer or TransactionalWriter(_NO_PRODUCER, -1)
            self._batch = BatchBuilder(
                compression_type=settings.compression_type,
                producer_id=writer.producer_id,
                producer_epoch=writer.producer_epoch,
                # Coordinators do not count; Kafka's write 0 as well.
                base_sequence=NO_SEQUENCE if self._writer is None else 0,
                is_transactional=self._writer is not None,
            )
            self._batch_offset = self._next_offset
            if self._flush_handle is None:
                if settings.linger_ms > 0:
                    seconds = settings.linger_ms / 1000
                    self._flush_handle = self._loop.call_later(seconds, self._flush_now)
                else:
                    self._flush_handle = self._loop.call_soon(self._flush_now)
        return self._batch

    def _park(self, answer: asyncio.Future[Any] | None, result: Result, now: Moment) -> None:
        """Leaves the answer until all that was written is committed. One that comes from another
        command is watched as well: if the records of this one are lost, it fails.
        """
        if answer is None and result.then is None:
            return
        is_committed = self.machine.timeline.committed_offset >= self._next_offset
        if not result.records and is_committed:
            self._finish(_Waiting(0, 0, answer, result))
            return
        timeout_ms = self._host.settings().commit_timeout_ms
        deadline_ms = now.monotonic_ms + timeout_ms
        self._waiting.append(_Waiting(self._next_offset, deadline_ms, answer, result))
        if self._waiting_timer is None:
            self._waiting_timer = self._loop.call_later(timeout_ms / 1000, self._time_out)

    # --- appends

    def _flush_now(self) -> None:
        """What the append itself commits is answered at once."""
        self._flush_handle = None
        self._is_advancing = True
        try:
            self._flush()
        finally:
            self._advance()

    def _flush(self) -> Errors | None:
        """Appends what is gathered; the error if it was refused."""
        builder, self._batch = self._batch, None
        if builder is None or builder.record_count == 0:
            return None
        try:
            first_offset = self._append(builder.build(), self._writer)
        except LogError as error:
            self._append_failed(error.error)
            return error.error
        assert first_offset == self._batch_offset, "somebody else writes to this partition"
        self._progress()
        return None

    def _append(
        self, batch: bytearray, writer: TransactionalWriter | None, transaction_version: int = 0
    ) -> int:
        """The offset of its first record. LogError refuses it."""
        partition = self.partition
        if not partition.is_leader:
            raise LogError(Errors.NOT_LEADER_OR_FOLLOWER, "led by another broker")
        if not self._host.has_enough_replicas(partition):
            raise LogError(Errors.NOT_ENOUGH_REPLICAS, "too few replicas are in sync")
        info = partition.append(
            batch,
            now_ms=self._host.now().wall_ms,
            origin=AppendOrigin.COORDINATOR,
            guard=None if writer is None else writer.guard,
            transaction_version=transaction_version,
        )
        return info.first_offset

    def _append_failed(self, error: Errors) -> None:
        base = self._batch_offset
        self.machine.timeline.revert(base)
        self._next_offset = base
        failed = []
        while self._waiting and self._waiting[-1].end_offset > base:
            failed.append(self._waiting.pop())
        for waiting in reversed(failed):
            self._finish(waiting, error)

    # --- answers

    def _progress(self) -> None:
        """The high watermark may have moved; looked at once per turn of the loop."""
        if not self._is_advancing:
            self._is_advancing = True
            self._loop.call_soon(self._advance)

    def _advance(self) -> None:
        self._is_advancing = False
        log = self.partition.log
        if self.state is not ShardState.ACTIVE or log is None:
            return
        high_watermark = min(log.high_watermark, self._next_offset)
        self.machine.timeline.commit(high_watermark)
        while self._waiting and self._waiting[0].end_offset <= high_watermark:
            self._finish(self._waiting.popleft())

    def _finish(self, waiting: _Waiting, error: Errors = Errors.NONE) -> None:
        if waiting.then is not None:
            then = waiting.then
            self._run(lambda machine, now: machine.appended(then, error, now), None)
        answer = waiting.answer
        if answer is None or answer.done():
            return
        if error is not Errors.NONE:
            answer.set_exception(CoordinatorError(error))
        elif waiting.response is not None:
            answer.set_result(waiting.response)

    def _time_out(self) -> None:
        self._waiting_timer = None
        now_ms = self._host.now().monotonic_ms
        while self._waiting and self._waiting[0].deadline_ms <= now_ms:
            self._finish(self._waiting.popleft(), Errors.REQUEST_TIMED_OUT)
        if self._waiting and self._waiting_timer is None:
            left_ms = self._waiting[0].deadline_ms - now_ms
            self._waiting_timer = self._loop.call_later(left_ms / 1000, self._time_out)

    # --- deadlines of the machine

    def _arm_machine_timer(self) -> None:
        """A timer that is set for an earlier time is left alone: it looks again then."""
        deadline_ms = self.machine.next_deadline_ms
        if deadline_ms is None or self.state is not ShardState.ACTIVE:
            return
        if self._machine_timer is not None:
            if self._armed_ms <= deadline_ms:
                return
            self._machine_timer.cancel()
        self._armed_ms = deadline_ms
        seconds = max(0, deadline_ms - self._host.now().monotonic_ms) / 1000
        self._machine_timer = self._loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        """A node that comes late did not read either: whoever wrote in time is heard first."""
        late_ms = self._host.now().monotonic_ms - self._armed_ms
        self._is_patient = late_ms > COORDINATOR_LATE_MS_MAX and not self._is_patient
        if self._is_patient:
            seconds = COORDINATOR_PATIENCE_MS / 1000
            self._machine_timer = self._loop.call_later(seconds, self._expire)
            return
        self._machine_timer = None
        for _ in range(COORDINATOR_DEADLINES_PER_TURN_MAX):
            deadline_ms = self.machine.next_deadline_ms
            if deadline_ms is None or deadline_ms > self._host.now().monotonic_ms:
                break
            self._run(lambda machine, now: machine.expire(now) or Result(), None)
        self._arm_machine_timer()


def _answer(replies: Any) -> None:
    reply: Reply
    for reply in replies:
        if not reply.waiter.done():
            reply.waiter.set_result(reply.response)


def _fail(answer: asyncio.Future[Any], error: Errors) -> None:
    if not answer.done():
        answer.set_exception(CoordinatorError(error))
