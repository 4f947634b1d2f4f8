"""One partition of a coordinator: the driver of its machine.

A shard is loading, active, failed or closed. It is loaded by replaying its partition to the end;
meanwhile every request gets COORDINATOR_LOAD_IN_PROGRESS. It is closed when this broker does not
lead the partition any more; waiting requests get NOT_COORDINATOR, and the machine is dropped with
all that was not committed. A failed one could not be loaded, or found in its log what somebody else
has appended: another takes its place (`runtime`).

A command runs at once, on the newest state. Its records get the next offsets, are replayed, and
join the batch that is being gathered; the batch is appended at the end of the turn of the loop, or
after the linger. The answer waits in a queue for the high watermark:

    committed      appended, waiting for replicas     gathered
    ...........|.................................|...............|
            high watermark                  log end offset   next offset

If an append is refused, memory goes back to the log end offset, and every answer that depended on
the batch is an error. Commands without records wait as well, for all that was written before them:
what they answer may rest on it. If replicas take too long the answer is an error too, but the
records are in the log and stay.

What is written within a transaction (`write` with a writer) goes into batches of its own, which
have the producer's id and epoch. Its end comes as a marker (`end_transaction`), which is appended
and replayed here as well. If somebody else writes to the partition, memory has other offsets than
the log: the shard fails, as Kafka's does.

A command about thousands of partitions is done in pieces: it returns a generator, or more records
than are gathered in one turn of the loop. What comes meanwhile waits in `_later`, except questions
about committed state, and nothing is appended: the records of a command stay together. What waited
is done afterwards, one command in each turn, and what comes until then queues up after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from kaa.coordinators.loading import replay_log
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult, Machine
from kaa.coordinators.promise import keep_in_pieces
from kaa.coordinators.records import encode_all
from kaa.limits import (
    COORDINATOR_CHANGES_COMMITTED_PER_TURN_MAX,
    COORDINATOR_DEADLINES_PER_TURN_MAX,
    COORDINATOR_LATE_MS_MAX,
    COORDINATOR_PATIENCE_MS,
    RECORDS_PER_PIECE,
    SMALL_RECORD_BYTES,
)
from kaa.log.append import BY_COORDINATOR
from kaa.log.errors import LogError
from kaa.model.pieces import begun, emptied, in_pieces
from kaa.records.batch import HEADER_BYTES, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from kaa.records.build import BatchBuilder
from kaa.records.control import (
    ControlRecordType,
    build_end_transaction_batch,
)
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from kaa.coordinators.loading import Host
    from kaa.coordinators.machine import Moment, Reply
    from kaa.coordinators.promise import Promise
    from kaa.coordinators.records import RecordTypes
    from kaa.log.producer_state import VerificationGuard
    from kaa.model.pieces import Pieces
    from kaa.records.control import EndTransactionMarker
    from kaa.replication.partition import Partition

MachineType = TypeVar("MachineType", bound=Machine)
Asked = TypeVar("Asked")
if TYPE_CHECKING:
    Command = Callable[[MachineType, Moment], CoordinatorResult | Pieces[CoordinatorResult]]


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class TransactionalWriter(NamedTuple):
    """In whose transaction records are written; the guard says that there is one."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None = None


_NO_WRITER: Final = TransactionalWriter(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class _Waiting:
    """An answer, or an event for the machine, that waits for the high watermark."""

    __slots__ = ("answer", "deadline_ms", "end_offset", "response", "then")

    def __init__(
        self,
        end_offset: int,
        deadline_ms: int,
        answer: Promise[Any] | None,
        result: CoordinatorResult,
    ) -> None:
        self.end_offset = end_offset
        self.deadline_ms = deadline_ms
        self.answer = answer
        self.response = result.response
        self.then = result.then


class Shard(Generic[MachineType]):
    """Runs the machine of one partition: commands in, futures of committed answers out. The runtime
    makes it, loads it once and closes it.
    """

    def __init__(
        self,
        partition: Partition,
        machine: MachineType,
        types: RecordTypes,
        host: Host,
        perform: Callable[[Any], None],
        replace: Callable[[Shard[MachineType]], None],
    ) -> None:
        self.partition = partition
        self.machine = machine
        self.state = ShardState.LOADING
        self.leader_epoch = partition.leader_epoch
        self._types = types
        self._host = host
        self._perform = perform
        self._replace = replace
        self._loop = host.loop
        # The offset of the next record: the log end offset plus what is gathered.
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
        # The command that is being done in pieces and its answer, and what waits for its end.
        self._long: Pieces[None] | None = None
        self._long_answer: Promise[Any] | None = None
        self._later: deque[tuple[Callable[[], None], Promise[Any] | None]] = deque()
        self._is_catching_up = False
        # The linger has ended meanwhile.
        self._is_flush_due = False

    # --- requests

    def write(
        self,
        command: Command[MachineType],
        answer: Promise[Any],
        writer: TransactionalWriter | None = None,
    ) -> None:
        """Runs the command; `answer` gets its response, or a CoordinatorError. With a writer, the
        records count when its transaction commits.
        """
        refusal = self._refusal()
        if refusal is not None:
            answer.refuse(CoordinatorError(refusal))
        elif self._must_wait():
            self._later.append((partial(self.write, command, answer, writer), answer))
        elif writer is None:
            self._run(command, answer)
        else:
            self._write_in_transaction(command, answer, writer)

    def _must_wait(self) -> bool:
        """Whether others come first."""
        return self._long is not None or (bool(self._later) and not self._is_catching_up)

    def _write_in_transaction(
        self, command: Command[MachineType], answer: Promise[Any], writer: TransactionalWriter
    ) -> None:
        refusal = self._flush()
        if refusal is not None:
            answer.refuse(CoordinatorError(refusal))
            return
        self._writer = writer
        try:
            self._run(command, answer)
        finally:
            if self._long is None:
                self._leave_transaction()

    def _leave_transaction(self) -> None:
        try:
            self._flush()
        finally:
            self._writer = None

    def end_transaction(
        self,
        producer: TransactionalWriter,
        marker: EndTransactionMarker,
        transaction_version: int,
        answer: Promise[Any],
    ) -> None:
        """Writes the marker and replays it; `answer` gets NONE, or a CoordinatorError."""
        if self._must_wait():
            again = partial(self.end_transaction, producer, marker, transaction_version, answer)
            self._later.append((again, answer))
            return
        refusal = self._refusal() or self._flush()
        if refusal is not None:
            answer.refuse(CoordinatorError(refusal))
            return
        now = self._host.now()
        batch = build_end_transaction_batch(
            marker,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            timestamp=now.wall_ms,
        )
        try:
            info = self.partition.append(
                batch,
                now_ms=now.wall_ms,
                source=BY_COORDINATOR._replace(transaction_version=transaction_version),
            )
        except LogError as error:
            refusal = error.error
        else:
            refusal = self._lost_step(self._next_offset, info.first_offset)
        if refusal is not None:
            answer.refuse(CoordinatorError(refusal))
            return
        is_commit = marker.control_type is ControlRecordType.COMMIT
        self._long = self._replay_end(producer.producer_id, is_commit, answer, now)
        self._long_answer = answer
        self._go_on()

    def _replay_end(
        self, producer_id: int, is_commit: bool, answer: Promise[Any], now: Moment
    ) -> Pieces[None]:
        self.machine.timeline.move(self._next_offset)
        yield from self.machine.replay_end_transaction(producer_id, is_commit=is_commit)
        self._next_offset += 1
        self._park(answer, CoordinatorResult(response=Errors.NONE), now)

    def write_unasked(self, command: Command[MachineType]) -> None:
        """Runs a command that no client waits for; the shard is active."""
        if self._must_wait():
            self._later.append((partial(self._run, command, None), None))
        else:
            self._run(command, None)

    def read(self, query: Callable[[MachineType], Any | Pieces[Any]], answer: Promise[Any]) -> None:
        """Answers a question about committed state. One that is answered in pieces has turns for
        others; what is not read yet may change in between.
        """
        refusal = self._refusal()
        if refusal is None:
            pieces = found(query, self.machine)
            keep_in_pieces(self._loop, pieces, answer, lambda: self.state is not ShardState.ACTIVE)
        else:
            answer.refuse(CoordinatorError(refusal))

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
            end_offset = await replay_log(
                self.partition, self.machine, self._types, self._host, self._is_closed
            )
            if not self._is_closed():
                self._next_offset = end_offset
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

    def close(self) -> None:
        """This broker does not lead the partition any more: nothing uncommitted counts."""
        self._give_up(ShardState.CLOSED)

    def _give_up(self, state: ShardState) -> None:
        was_active = self.state is ShardState.ACTIVE
        self._end(state)
        answers = [waiting.answer for waiting in self._waiting]
        answers += [self._long_answer, *(answer for _, answer in self._later)]
        self._waiting.clear()
        self._later.clear()
        self._long = self._long_answer = None
        for answer in answers:
            if answer is not None:
                answer.refuse(CoordinatorError(Errors.NOT_COORDINATOR))
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

    def _run(self, command: Command[MachineType], answer: Promise[Any] | None) -> None:
        """Runs a command: at once if it is short, after others if one goes on in pieces."""
        if self._long is not None:
            self._later.append((partial(self._run, command, answer), answer))
            return
        now = self._host.now()
        timeline = self.machine.timeline
        timeline.move(self._next_offset)
        result: CoordinatorResult | Pieces[CoordinatorResult] | None = None
        try:
            result = command(self.machine, now)
            if isinstance(result, Generator) or len(result.records) > RECORDS_PER_PIECE:
                self._long, self._long_answer = self._in_pieces(result, answer, now), answer
                self._go_on()
                return
            if result.records:
                rest = begun(self._gather(result, now))
                if rest is not None:
                    self._long = self._in_pieces(result, answer, now, rest)
                    self._long_answer = answer
                    self._loop.call_soon(self._go_on)
                    return
        except CoordinatorError as error:
            self._refuse(result, answer, error)
        except Exception:
            timeline.revert(self._next_offset)
            raise
        else:
            self._succeed(result, answer, now)
        finally:
            self._arm_machine_timer()

    def _refuse(self, result: object, answer: Promise[Any] | None, error: CoordinatorError) -> None:
        """A command that was refused, or whose result cannot be written, has not happened. Those
        who wait for the result are answered by the machine.
        """
        self.machine.timeline.revert(self._next_offset)
        if answer is not None:
            answer.refuse(error)
        if isinstance(result, CoordinatorResult) and result.then is not None:
            self._run(lambda machine, now: machine.appended(result.then, error.error, now), None)

    def _succeed(self, result: CoordinatorResult, answer: Promise[Any] | None, now: Moment) -> None:
        _answer(result.replies)
        self._park(answer, result, now)
        for effect in result.effects:
            self._perform(effect)

    def _in_pieces(
        self,
        work: CoordinatorResult | Pieces[CoordinatorResult],
        answer: Promise[Any] | None,
        now: Moment,
        gathering: Pieces[None] | None = None,
    ) -> Pieces[None]:
        result = None
        try:
            result = yield from in_pieces(work)
            yield from gathering or self._gather(result, now)
        except CoordinatorError as error:
            self._refuse(result, answer, error)
        except Exception:
            self.machine.timeline.revert(self._next_offset)
            if answer is not None:
                answer.refuse(CoordinatorError(Errors.UNKNOWN_SERVER_ERROR))
            raise
        else:
            self._succeed(result, answer, now)

    def _go_on(self) -> None:
        """Does a piece of the long command; when it has ended, what waited for that."""
        if self._long is None:
            return
        try:
            next(self._long)
        except StopIteration:
            self._end_long()
        except Exception:
            self._end_long()
            raise
        else:
            self._loop.call_soon(self._go_on)

    def _end_long(self) -> None:
        self._long = self._long_answer = None
        if self._writer is not None:
            self._leave_transaction()
        elif self._is_flush_due:
            self._flush()
        self._is_flush_due = False
        self._progress()
        if not self._is_catching_up:
            self._go_on_with_others()

    def _go_on_with_others(self) -> None:
        """What waited has its turns before anything else."""
        if self._later:
            self._loop.call_soon(self._catch_up)
        else:
            self._arm_machine_timer()

    def _catch_up(self) -> None:
        """Does one command that waited, or begins it."""
        if not self._later:
            return
        again, answer = self._later.popleft()
        self._is_catching_up = True
        try:
            again()
        except Exception as error:  # noqa: BLE001 - it costs this command alone.
            if answer is not None:
                answer.refuse(CoordinatorError(Errors.UNKNOWN_SERVER_ERROR))
            self._complain(error)
        finally:
            self._is_catching_up = False
        if self._long is None:
            self._go_on_with_others()

    def _complain(self, error: Exception) -> None:
        fault = {"message": "a command of a coordinator failed", "exception": error}
        self._loop.call_exception_handler(fault)

    def _gather(self, result: CoordinatorResult, now: Moment) -> Pieces[None]:
        """Adds the records to the batch. CoordinatorError if they cannot be written."""
        records = result.records
        if not records:
            return
        encoded, sizes = yield from encode_all(records)
        log = self.partition.log
        if log is None:
            raise CoordinatorError(Errors.KAFKA_STORAGE_ERROR)
        bytes_max = log.config.max_message_bytes
        whole = sum(sizes) if result.is_atomic else max(sizes)
        if whole + HEADER_BYTES > bytes_max:
            # To free a hundred thousand at once takes long.
            yield from emptied(encoded, records)
            raise CoordinatorError(Errors.RECORD_LIST_TOO_LARGE)
        if result.is_atomic:
            self._make_room(whole, bytes_max)
        machine, timeline = self.machine, self.machine.timeline
        producer_id, producer_epoch, _ = self._writer or _NO_WRITER
        spent = 0
        for (key, value), size, record in zip(encoded, sizes, records, strict=True):
            if not result.is_atomic:
                self._make_room(size, bytes_max)
            offset = self._next_offset
            if result.is_replayed:
                timeline.move(offset)
                rest = record.replay(machine, offset, producer_id, producer_epoch)
                if rest is not None:
                    yield from rest
            builder = self._batch
            if builder is None:
                builder = self._begin_batch()
            builder.append(now.wall_ms, key, value)
            self._next_offset = offset + 1
            spent += 1 + size // SMALL_RECORD_BYTES
            if spent >= RECORDS_PER_PIECE:
                spent = 0
                yield

    def _make_room(self, size: int, bytes_max: int) -> None:
        gathered = self._batch
        if gathered is not None and gathered.size_in_bytes + size > bytes_max:
            refusal = self._flush()
            if refusal is not None:
                # What the command decided rested on what was just taken back.
                raise CoordinatorError(refusal)

    def _begin_batch(self) -> BatchBuilder:
        settings = self._host.settings()
        writer = self._writer or _NO_WRITER
        self._batch = builder = BatchBuilder(
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
        return builder

    def _park(self, answer: Promise[Any] | None, result: CoordinatorResult, now: Moment) -> None:
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
        if self._long is not None:
            self._is_flush_due = True
            return
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
        writer, source = self._writer, BY_COORDINATOR
        if writer is not None:
            source = source._replace(guard=writer.guard)
        try:
            info = self.partition.append(
                builder.build(), now_ms=self._host.now().wall_ms, source=source
            )
        except LogError as error:
            self._append_failed(error.error)
            return error.error
        refusal = self._lost_step(self._batch_offset, info.first_offset)
        if refusal is None:
            self._progress()
        return refusal

    def _lost_step(self, expected: int, offset: int) -> Errors | None:
        """Fails if what was appended is elsewhere in the log than memory has it."""
        if offset == expected:
            return None
        self._host.report(
            f"another writer has appended to {self.partition.topic}-{self.partition.number} "
            f"(offset {offset} instead of {expected}); its coordinator loads it again"
        )
        self._give_up(ShardState.FAILED)
        self._loop.call_soon(self._replace, self)
        return Errors.NOT_COORDINATOR

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
        if self.state is not ShardState.ACTIVE or log is None or self._long is not None:
            return
        # What is only gathered is not committed, even if another writer has moved the watermark.
        written = self._next_offset if self._batch is None else self._batch_offset
        high_watermark = min(log.high_watermark, written)
        timeline = self.machine.timeline
        timeline.commit(high_watermark, COORDINATOR_CHANGES_COMMITTED_PER_TURN_MAX)
        while self._waiting and self._waiting[0].end_offset <= timeline.committed_offset:
            self._finish(self._waiting.popleft())
        if timeline.committed_offset < high_watermark:
            self._progress()

    def _finish(self, waiting: _Waiting, error: Errors = Errors.NONE) -> None:
        if waiting.then is not None:
            then = waiting.then
            try:
                self._run(lambda machine, now: machine.appended(then, error, now), None)
            except Exception as fault:  # noqa: BLE001 - it costs nobody an answer.
                self._complain(fault)
        answer = waiting.answer
        if answer is None:
            return
        if error is not Errors.NONE:
            answer.refuse(CoordinatorError(error))
        elif waiting.response is not None:
            answer.keep(waiting.response)

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
        deadline_ms = self.machine.timers.next_deadline_ms
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
        """A node that comes late did not read either: who wrote in time is heard first."""
        if self._must_wait():
            self._machine_timer = None
            return
        now_ms = self._host.now().monotonic_ms
        late_ms = now_ms - self._armed_ms
        self._is_patient = late_ms > COORDINATOR_LATE_MS_MAX and not self._is_patient
        if self._is_patient:
            seconds = COORDINATOR_PATIENCE_MS / 1000
            self._machine_timer = self._loop.call_later(seconds, self._expire)
            return
        self._machine_timer = None
        for _ in range(COORDINATOR_DEADLINES_PER_TURN_MAX):
            deadline_ms = self.machine.timers.next_deadline_ms
            # What becomes due meanwhile, as the next slice of long work, has another turn.
            if deadline_ms is None or deadline_ms > now_ms:
                break
            self._run(lambda machine, now: machine.expire(now) or CoordinatorResult(), None)
        self._arm_machine_timer()


def found(query: Callable[[Asked], Any | Pieces[Any]], asked: Asked) -> Pieces[Any]:
    """The answer to a question, which may be given at once or in pieces."""
    return (yield from in_pieces(query(asked)))


def _answer(replies: Iterable[Reply]) -> None:
    for reply in replies:
        reply.waiter.keep(reply.response)
