"""The driver of the quorum machine: performs its effects on disk and network, in their order.

One driver owns one `QuorumMachine`, one metadata log and one local state machine. It lives on one
event loop and never blocks it: everything that waits for a disk runs in the executor it was given.
Three rules give it its shape.

* Events are handled one after the other, effects performed before the next event. An effect that
  must be durable before the next one (a vote, an installed snapshot, a cut of the log) holds up
  all that follow until a thread has done it.
* Log writes go to the page cache at once and are synced together. While one sync runs, further
  writes gather, and the next sync covers them all: the cost of a sync is shared by as many appends
  as arrive during it. The machine learns of a write when it is on disk.
* A write or a sync that fails is never tried again. The driver stops for good, and so must the
  node.

An append of the local state machine is performed inside the call, so that the next decision of the
state machine knows at which offset its records will be.
"""

from __future__ import annotations

from asyncio import wrap_future
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from kaa.limits import RECORDS_PER_PIECE
from kaa.log.errors import CorruptFileError, LogError
from kaa.log.quorum_state import QuorumStateData, write_quorum_state
from kaa.quorum.control_records import (
    build_control_records,
    kraft_version_record,
    leader_change,
    voters_record,
)
from kaa.quorum.effects import (
    AppendAsFollower,
    AppendAsLeader,
    AppendLeaderChange,
    AppendToSnapshot,
    AppendVoters,
    BeginSnapshot,
    DiscardSnapshot,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LeaderChanged,
    PersistElection,
    RejectAppend,
    Report,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
    SendRequest,
    Stopped,
    TruncateLog,
)
from kaa.quorum.events import (
    Append,
    FetchDamaged,
    ReceivedRequest,
    ReceivedResponse,
    Resign,
    Shutdown,
    Start,
    Tick,
    VoterSetRead,
)
from kaa.quorum.messages import ErrorResponse
from kaa.quorum.replicated_state import committed_batch
from kaa.quorum.shared_sync import SharedSync
from kaa.quorum.snapshots import SnapshotValues, snapshot_name
from kaa.quorum.transitions import QuorumError
from kaa.quorum.voters import NO_KRAFT_VERSION, node_at
from kaa.records.batch import iter_batches
from kaa.records.errors import RecordsError
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from kaa.log.files import Files
    from kaa.log.truncation import PendingTruncation
    from kaa.model.pieces import Pieces
    from kaa.model.seams import Clock
    from kaa.quorum.control_records import ControlMessage
    from kaa.quorum.control_state import ControlState
    from kaa.quorum.effects import Effect
    from kaa.quorum.election import ElectionState
    from kaa.quorum.events import Event
    from kaa.quorum.log_view import OffsetAndEpoch
    from kaa.quorum.machine import QuorumDescription, QuorumMachine
    from kaa.quorum.messages import Request, Response
    from kaa.quorum.metadata_log import MetadataLog, SnapshotWriter
    from kaa.quorum.replicated_state import QuorumNetwork, ReplicatedState
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.quorum.voters import Node, VoterNode, VoterSet
    from kaa.records.batch import RecordBatch


class QuorumDriver:
    """Runs the quorum machine of this node. `start` it once; then it runs by its loop's callbacks.
    A disk that fails stops it for good, and the node has to stop too.
    """

    def __init__(
        self,
        *,
        machine: QuorumMachine,
        log: MetadataLog,
        control: ControlState,
        state: ReplicatedState,
        local_voter: VoterNode,
        listener: str,
        files: Files,
        clock: Clock,
        executor: Executor,
        loop: asyncio.AbstractEventLoop,
        network: QuorumNetwork | None = None,
        report: Callable[[str], None] = lambda _: None,
        linger_ms: int = 0,
    ) -> None:
        self.log = log
        self.machine = machine
        self._control = control
        self._state = state
        self._local_voter = local_voter
        # The name of the listener that replicas of the quorum talk on.
        self._listener = listener
        self._files = files
        self._clock = clock
        self._executor = executor
        self._loop = loop
        self._network = network
        self._report = report
        self._events: deque[Event] = deque()
        self._effects: deque[Effect] = deque()
        # Whether the executor works on something that the next effect has to wait for.
        self._is_held = False
        self._is_pumping = False
        self.is_stopped = False
        self._commits = SharedSync(log, clock, executor, loop, self._hand_in, self._stop, linger_ms)
        self._timer: asyncio.TimerHandle | None = None
        # All before this offset has been handed to the state machine.
        self.applied_offset = 0
        # All before this offset is committed.
        self._committed_offset = 0
        # Whether a later turn goes on with handing over.
        self._is_applying = False
        # The batch or snapshot that is being applied in pieces, by the offset after it.
        self._commit: tuple[int, Pieces[None]] | None = None
        # A snapshot that was installed and is not applied yet.
        self._unloaded: tuple[OffsetAndEpoch, SnapshotContent] | None = None
        # The piece of a snapshot that is being read to be applied.
        self._reading: asyncio.Future[list[bytes] | None] | None = None
        self._pending_claim: LeaderChanged | None = None
        self._last_append_id = 0
        # The offset of the last append, None if it was refused.
        self._appended_offset: int | None = None
        self._requests: dict[int, asyncio.Future[Response]] = {}
        self._last_request_id = 0
        self._download: SnapshotWriter | None = None

    # --- what others call

    def start(self, snapshot: tuple[OffsetAndEpoch, SnapshotContent] | None) -> None:
        """Loads the newest snapshot and lets the machine start."""
        self.applied_offset = self.log.start_offset()
        if snapshot is not None:
            self._load(*snapshot)
        self._hand_in(Start())

    def append(self, epoch: int, batch: bytearray) -> int | None:
        """Appends a batch of the state machine that leads `epoch`.

        Returns the offset of its first record; None if nothing was written, because the leadership
        is gone or about to be. The records count when `ReplicatedState.commit` gets them.
        """
        assert not self._is_pumping, "a state machine may not append inside a callback"
        if self.is_stopped or self._is_held or self._events:
            return None
        self._last_append_id += 1
        self._appended_offset = None
        self._hand_in(Append(self._last_append_id, epoch, batch))
        return self._appended_offset

    def raise_kraft_version(self, epoch: int, level: int) -> int | None:
        """Has the log say who votes, from here on; None if that is not known of every voter."""
        voters = self.machine.known_voters(level)
        if voters is None:
            return None
        records: list[ControlMessage] = [kraft_version_record(level), voters_record(voters)]
        batch = build_control_records(
            records,
            timestamp=self._clock.wall_ms(),
            base_offset=self.log.end_offset,
            epoch=epoch,
        )
        return self.append(epoch, batch)

    def resign(self, epoch: int) -> None:
        self._hand_in(Resign(epoch))

    def shut_down(self, timeout_ms: int) -> None:
        """Hands the leadership over; `ReplicatedState.stopped` tells the end."""
        self._hand_in(Shutdown(timeout_ms))

    async def serve(self, request: Request) -> Response:
        """The answer to a request of another replica; a fetch may take long."""
        if self.is_stopped:
            return ErrorResponse(Errors.BROKER_NOT_AVAILABLE)
        self._last_request_id += 1
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._requests[self._last_request_id] = answer
        self._hand_in(ReceivedRequest(self._last_request_id, request))
        return await answer

    def received_response(self, node_id: int, correlation_id: int, response: Response) -> None:
        self._hand_in(ReceivedResponse(node_id, correlation_id, response))

    def describe(self) -> QuorumDescription | None:
        """For DescribeQuorum; None unless this replica leads."""
        return self.machine.describe(self.monotonic_ms())

    def leader_node(self) -> Node | None:
        """Where another replica that leads listens; None if its address is not known."""
        state = self.machine.state
        if state.leader_id is None:
            return None
        endpoints = state.leader_endpoints or self.machine.voter_set.endpoints(state.leader_id)
        return node_at(state.leader_id, endpoints, self._listener)

    @property
    def kraft_version(self) -> int:
        return self._control.kraft_version

    def knows_voters(self, level: int) -> bool:
        """Whether `raise_kraft_version` to this level finds what it has to write."""
        return self.machine.known_voters(level) is not None

    def voters_at(self, offset: int) -> tuple[int, VoterSet]:
        """The level of kraft.version and the voters that were in force once this offset had been
        appended; what a snapshot that ends there must say.
        """
        return self._control.kraft_version_at(offset), self._control.voters.at(offset)

    def forget_voters_before(self, offset: int) -> None:
        """Those that a snapshot which ends there takes the place of."""
        self._control.voters.forget_before(offset)

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def close(self) -> None:
        """Stops without a word to anybody; files stay as they are."""
        self._stop(None)

    # --- events and effects

    def _hand_in(self, event: Event) -> None:
        if self.is_stopped:
            return
        self._events.append(event)
        if not self._is_held and not self._is_pumping:
            self._pump()

    def _pump(self) -> None:
        self._is_pumping = True
        try:
            with self._ending_with_faults():
                while not self._is_held and not self.is_stopped:
                    if self._effects:
                        self._perform(self._effects.popleft())
                    elif self._events:
                        event = self._events.popleft()
                        self._effects.extend(self.machine.handle(event, self.monotonic_ms()))
                        if isinstance(event, VoterSetRead):
                            self._state.voters_changed()
                    else:
                        break
        finally:
            self._is_pumping = False
        self._arm_timer()

    @contextmanager
    def _ending_with_faults(self) -> Iterator[None]:
        """Around all that the loop calls: whatever goes wrong there, the driver stops with it."""
        try:
            yield
        except (OSError, LogError, QuorumError) as error:
            self._stop(error)
        except Exception as error:
            # A fault of ours. Effects may be half done, or a batch half applied; a replica that
            # went on would lead and do nothing, or leave records out.
            self._stop(error)
            raise

    def _arm_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.machine.next_deadline_ms
        if deadline_ms is not None and not self.is_stopped and not self._is_held:
            self._timer = self._loop.call_at(deadline_ms / 1000, self._hand_in, Tick())

    def _perform(self, effect: Effect) -> None:
        match effect:
            case AppendAsLeader() | AppendLeaderChange() | AppendVoters() | AppendAsFollower():
                self._change_log(effect)
            case TruncateLog():
                self._truncate_log(effect)
            case HighWatermarkAdvanced(high_watermark):
                self.log.update_high_watermark(high_watermark)
                self._committed_offset = high_watermark
                if not self._is_applying:
                    self._apply_some()
            case PersistElection(election):
                self._hold(lambda: self._write_election(election))
            case LeaderChanged():
                self._leader_changed(effect)
            case SendRequest(node, correlation_id, request):
                self._send(node, correlation_id, request)
            case Respond(request_id, response):
                self._respond(request_id, response)
            case RespondWithRecords(request_id, response, offset, max_bytes):
                records = self.log.read(offset, max_bytes)
                self._respond(request_id, response.replace(records=records))
            case RespondWithSnapshot():
                self._respond_with_snapshot(effect)
            case RejectAppend():
                self._appended_offset = None
            case Report(message):
                self._report(message)
            case Stopped():
                self._stop(None)
            case _:
                self._change_snapshot(effect)

    def _hold(self, work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        """Lets the executor work; everything else of this driver waits for it."""
        self._is_held = True

        def resume(done: asyncio.Future[None]) -> None:
            self._is_held = False
            error = done.exception()
            if error is not None:
                self._stop(error)
            elif then is not None and not self.is_stopped:
                with self._ending_with_faults():
                    then()
            self._pump()

        self._loop.run_in_executor(self._executor, work).add_done_callback(resume)

    def _hold_for(self, pending: PendingTruncation, then: Callable[[], None]) -> None:
        """The same for what is done to the log in steps."""
        if self.is_stopped:
            # The rest is carried out when the log is closed.
            return
        self._is_held = True
        if not pending.is_settled:
            work = pending.advance()
            if not pending.is_settled:
                go_on = partial(self._hold_for, pending, then)
                if work is None:
                    self._loop.call_soon(go_on)
                else:
                    wrap_future(work, loop=self._loop).add_done_callback(lambda _: go_on())
                return
        self._is_held = False
        if pending.error is not None:
            self._stop(pending.error)
        else:
            with self._ending_with_faults():
                then()
        if not self._is_pumping:
            self._pump()

    def _stop(self, error: BaseException | None) -> None:
        if self.is_stopped:
            return
        self.is_stopped = True
        self._events.clear()
        self._effects.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._commits.close()
        for answer in self._requests.values():
            if not answer.done():
                answer.set_result(ErrorResponse(Errors.BROKER_NOT_AVAILABLE))
        self._requests.clear()
        try:
            self._abandon_download()
        except OSError as failure:
            self._report(f"cannot remove an unfinished snapshot: {failure}")
        self._state.stopped(error)

    # --- elections and messages

    def _write_election(self, election: ElectionState) -> None:
        voted = election.voted_key
        is_static = self._control.kraft_version == NO_KRAFT_VERSION
        state = QuorumStateData(
            leader_id=-1 if election.leader_id is None else election.leader_id,
            leader_epoch=election.epoch,
            voted_id=-1 if voted is None else voted.id,
            voted_directory_id=(voted and voted.directory_id) or UUID_ZERO,
            current_voters=self.machine.voter_set.ids() if is_static else (),
            version=0 if is_static else 1,
        )
        write_quorum_state(self._files, self.log.folder, state)

    def _send(self, node: Node, correlation_id: int, request: Request) -> None:
        if self._network is not None:
            self._network.send(node, correlation_id, request, self.received_response)
            return
        error = ErrorResponse(Errors.BROKER_NOT_AVAILABLE)
        self._loop.call_soon(self.received_response, node.id, correlation_id, error)

    def _respond(self, request_id: int, response: Response) -> None:
        answer = self._requests.pop(request_id)
        if not answer.done():
            answer.set_result(response)

    def _leader_changed(self, change: LeaderChanged) -> None:
        if change.leader_id == self._local_voter.key.id:
            self._pending_claim = change
            self._claim_if_caught_up()
        else:
            self._pending_claim = None
            self._state.follow(change.epoch, change.leader_id)

    def _claim_if_caught_up(self) -> None:
        claim = self._pending_claim
        if claim is None or claim.epoch_start_offset is None:
            return
        if self.applied_offset > claim.epoch_start_offset:
            self._pending_claim = None
            self._state.lead(claim.epoch)

    # --- the log

    def _change_log(
        self, effect: AppendAsLeader | AppendLeaderChange | AppendVoters | AppendAsFollower
    ) -> None:
        now_ms = self._clock.wall_ms()
        start_offset = self.log.end_offset
        needs_sync = True
        written: Iterable[RecordBatch] | None = None
        match effect:
            case AppendAsLeader(_, _, epoch, records):
                assert isinstance(records, bytearray)
                self._appended_offset = self.log.append_as_leader(records, epoch, now_ms)
                # As they lie here, with their offsets: nothing has to be read again.
                written = iter_batches(records)
            case AppendLeaderChange():
                self.log.append_as_leader(self._epoch_start(effect, now_ms), effect.epoch, now_ms)
            case AppendVoters(_, epoch, voters):
                record = build_control_records(
                    [voters_record(voters)],
                    timestamp=now_ms,
                    base_offset=start_offset,
                    epoch=epoch,
                )
                self.log.append_as_leader(record, epoch, now_ms)
            case AppendAsFollower(_, epoch, records, needs_sync):
                assert isinstance(records, bytes | memoryview)
                valid = _valid_part(records, start_offset)
                if valid:
                    self.log.append_as_follower(valid, epoch, now_ms)
                else:
                    damage = f"the batch at offset {start_offset} of the metadata log is damaged"
                    self._events.append(FetchDamaged(damage))
        for batch in written or self.log.batches(start_offset, self.log.end_offset):
            if batch.is_control:
                for offset, voters in self._control.take_batch(batch):
                    self._events.append(VoterSetRead(offset, voters))
        # Followers that wait may have the records while the disk still works.
        self._events.append(Tick())
        may_linger = isinstance(effect, AppendAsLeader)
        self._commits.wrote(effect.write_id, needs_sync=needs_sync, may_linger=may_linger)

    def _truncate_log(self, effect: TruncateLog) -> None:
        def truncated() -> None:
            self._control.truncate_to(effect.offset)
            self._events.append(Tick())
            self._commits.wrote(effect.write_id, needs_sync=True)

        pending = self.log.begin_truncation(effect.offset, self._clock.wall_ms())
        if pending is None:
            truncated()
        else:
            self._hold_for(pending, truncated)

    def _epoch_start(self, change: AppendLeaderChange, now_ms: int) -> bytearray:
        """The control batch that opens an epoch; see `kaa.quorum.control_records`."""
        records: list[ControlMessage] = [
            leader_change(change.leader_id, change.voters, change.granting_voters)
        ]
        level, history = self._control.kraft_version, self._control.voters
        if level > NO_KRAFT_VERSION:
            voters = history.last()
            # None of a leader whose removal is not committed yet.
            updated = voters.update(self._local_voter)
            if updated is not None and (history.last_offset() == -1 or updated != voters):
                records += [kraft_version_record(level), voters_record(updated)]
        return build_control_records(
            records, timestamp=now_ms, base_offset=self.log.end_offset, epoch=change.epoch
        )

    # --- the state machine

    def _apply_more(self) -> None:
        self._is_applying = False
        if not self.is_stopped:
            with self._ending_with_faults():
                self._apply_some()

    def _apply_some(self) -> None:
        """Hands committed batches to the state machine, as many as one turn of the loop is for;
        the next turn goes on. The machine does not wait for it: what is committed stays so.
        """
        if self._unloaded is not None:
            snapshot, self._unloaded = self._unloaded, None
            if not self._load(*snapshot):
                return
        elif self._commit is not None and not self._commit_some(*self._commit):
            return
        if self.applied_offset > self._committed_offset:
            # A snapshot of what is committed, while the high watermark is not known yet.
            return
        count = 0
        for batch in self.log.batches(self.applied_offset, self._committed_offset):
            if count >= RECORDS_PER_PIECE:
                self._apply_later()
                break
            pieces = self._state.commit(committed_batch(batch))
            if not self._commit_some(batch.next_offset, pieces):
                break
            count += batch.last_offset - batch.base_offset + 1
        self._state.committed_up_to(self.applied_offset)
        self._claim_if_caught_up()

    def _commit_some(self, next_offset: int, pieces: Pieces[None]) -> bool:
        """Does a piece of the batch or snapshot that ends before this offset; whether it was the
        last.
        """
        try:
            next(pieces)
        except StopIteration:
            self._commit = None
            self.applied_offset = next_offset
            return True
        self._commit = (next_offset, pieces)
        self._apply_later()
        return False

    def _apply_later(self) -> None:
        self._is_applying = True
        if self._reading is not None and not self._reading.done():
            self._reading.add_done_callback(lambda _: self._apply_more())
        else:
            self._loop.call_soon(self._apply_more)

    def _load(self, snapshot_id: OffsetAndEpoch, content: SnapshotContent) -> bool:
        """Begins to put a snapshot in place of the state; whether that is done."""
        assert isinstance(content.values, SnapshotValues)
        content = content._replace(values=self._read(content.values))
        return self._commit_some(
            snapshot_id.offset, self._state.load_snapshot(snapshot_id, content)
        )

    def _read(self, values: SnapshotValues) -> Iterator[bytes | None]:
        """Has the executor read a batch at a time; None while it does."""
        batches = values.batches()
        while True:
            reading = self._loop.run_in_executor(self._executor, next, batches, None)
            self._reading = reading
            while not reading.done():
                yield None
            found = reading.result()
            if found is None:
                return
            yield from found

    # --- snapshots of the leader

    def _change_snapshot(self, effect: Effect) -> None:
        match effect:
            case BeginSnapshot(snapshot_id):
                self._abandon_download()
                self._download = self.log.begin_snapshot(snapshot_id)
            case AppendToSnapshot(_, position, records):
                assert isinstance(records, bytes | memoryview)
                assert self._download is not None
                assert self._download.size == position
                self._download.append(records)
            case DiscardSnapshot():
                self._abandon_download()
            case InstallSnapshot(write_id):
                writer, self._download = self._download, None
                assert writer is not None
                found: list[SnapshotContent | CorruptFileError] = []

                def finish() -> None:
                    try:
                        found.append(writer.finish_checked())
                    except CorruptFileError as error:
                        found.append(error)

                self._hold(finish, lambda: self._finished(writer, found[0], write_id))

    def _abandon_download(self) -> None:
        if self._download is not None:
            self._download.abandon()
            self._download = None

    def _finished(
        self, writer: SnapshotWriter, found: SnapshotContent | CorruptFileError, write_id: int
    ) -> None:
        if isinstance(found, CorruptFileError):
            name = snapshot_name(writer.id)
            damage = f"the snapshot {name} is damaged ({found.reason})"
            self._events.append(FetchDamaged(damage, write_id))
        else:
            self._install(writer, found, write_id)

    def _install(self, writer: SnapshotWriter, content: SnapshotContent, write_id: int) -> None:
        def installed() -> None:
            self.log.remove_snapshots_before(writer.id, self._clock.wall_ms())
            found = self._control.take_snapshot(writer.id, content)
            if found is not None:
                self._events.append(VoterSetRead(*found))
            self._commits.wrote(write_id, needs_sync=True)

        self.log.add_snapshot(writer, self._clock.wall_ms())
        # Before the log is emptied: what is read of it must not be missed.
        self._unloaded = (writer.id, content)
        self._hold_for(self.log.begin_start_at(writer.id, self._clock.wall_ms()), installed)

    def _respond_with_snapshot(self, effect: RespondWithSnapshot) -> None:
        """Reads a piece for another replica; nothing here waits for it."""
        response = effect.response
        assert response.snapshot_id is not None
        file = self.log.open_snapshot(response.snapshot_id)

        def read() -> bytes:
            try:
                return file.read(effect.max_bytes, response.position)
            finally:
                file.close()

        def respond(done: asyncio.Future[bytes]) -> None:
            error = done.exception()
            if error is not None:
                self._stop(error)
            elif not self.is_stopped:
                self._respond(effect.request_id, response.replace(records=done.result()))

        self._loop.run_in_executor(self._executor, read).add_done_callback(respond)


def _valid_part(records: bytes | memoryview, next_offset: int) -> bytes | memoryview:
    """The batches before the first that is damaged or does not follow the one before it."""
    size = 0
    try:
        for batch in iter_batches(records):
            batch.ensure_valid()
            if batch.base_offset != next_offset:
                break
            next_offset = batch.next_offset
            size += batch.size_in_bytes
    except RecordsError:
        pass
    return records[:size]
