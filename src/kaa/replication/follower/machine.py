"""One fetcher: the partitions that this broker copies from one leader.

A round is one Fetch for all partitions that are ready, and then what its answer asks for. The next
round begins when the records of the last one are appended. A partition is in one of these states:

- READY: the next fetch asks for it.
- BUSY: its log is being appended to, cut or restarted.
- RESTING: something was wrong with it, or a throttle holds it back; it is asked for again after
  `replica.fetch.backoff.ms`.
- STOPPED: nothing helps but new metadata, such as a newer leader epoch.

What an answer may hold for a partition:

- Records, which are appended. With or without them it tells the leader's high watermark and log
  start, which are taken over.
- A diverging epoch: the follower's last epoch ended earlier in the leader's log. The log is cut
  back to where both agree, in as many steps as there are epochs that only one of them has
  (`cut_offset`). A follower never cuts back to its high watermark: that may lag, and what lies
  above it may be acknowledged.
- OFFSET_OUT_OF_RANGE. The leader is asked where its log begins and ends. If it ends before this
  one, an unclean election lost records, and this log is cut to the leader's end. If it begins after
  the end of this one, nothing of this log is left there, and it starts over at the leader's start.
  Otherwise the leader's log moved meanwhile, and the fetch is just repeated.
- OFFSET_MOVED_TO_TIERED_STORAGE: the leader has the records in remote storage alone. The log is
  rebuilt from there, and goes on where the leader's disk begins (`kaa.log.rebuild`).
- Another error: the partition rests and is tried again. Others are not held up by it.

Every result of work carries the stamp under which it was asked for. A partition that was given up
and taken again has another stamp, so that late results are not taken for new ones.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kaa.model.topics import NO_EPOCH
from kaa.replication.follower.session import FetchPosition, FetchSession
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaa.replication.follower.session import FetchPlan, PartitionId
    from kaa.wire.messages.k01_fetch import FetchResponse, PartitionData
    from kaa.wire.schema import Records


class State(Enum):
    READY = "ready"
    BUSY = "busy"
    RESTING = "resting"
    STOPPED = "stopped"


class Followed:
    """A partition as its fetcher sees it."""

    __slots__ = (
        "end_offset",
        "is_held",
        "last_epoch",
        "leader_epoch",
        "rest_until_ms",
        "stamp",
        "start_offset",
        "state",
    )

    def __init__(
        self, stamp: int, leader_epoch: int, end_offset: int, last_epoch: int, start_offset: int
    ) -> None:
        self.stamp = stamp
        self.leader_epoch = leader_epoch
        # Of the log here: where the next fetch begins, and the epoch of the last record before.
        self.end_offset = end_offset
        self.last_epoch = last_epoch
        self.start_offset = start_offset
        self.state = State.READY
        self.rest_until_ms = 0
        # Whether it rests because of a throttle, and so until that lets go.
        self.is_held = False


class Target(NamedTuple):
    """The partition that work is for, under the stamp and leader epoch of this moment."""

    partition: PartitionId
    stamp: int
    leader_epoch: int


class Append(NamedTuple):
    """Append the records, if any, and take over the leader's high watermark and log start."""

    target: Target
    records: Records
    high_watermark: int
    log_start_offset: int


class CutToDivergence(NamedTuple):
    """Cut the log to where it agrees with the leader's, in which `epoch` ends at `end_offset`."""

    target: Target
    epoch: int
    end_offset: int


class Cut(NamedTuple):
    """Cut the log to an offset."""

    target: Target
    offset: int


class Restart(NamedTuple):
    """Remove everything, and go on at an offset."""

    target: Target
    offset: int


class AskOffsets(NamedTuple):
    """Ask the leader for the start and the end of its log."""

    target: Target


class Rebuild(NamedTuple):
    """Start over after what is in remote storage."""

    target: Target


class Report(NamedTuple):
    """Something that an operator should know."""

    partition: PartitionId
    reason: str


# What takes longer than an append, and happens beside the fetches.
Repair = CutToDivergence | Cut | Restart | AskOffsets | Rebuild
Effect = Append | Repair | Report


class LogPosition(NamedTuple):
    """Where a log is after work on it."""

    end_offset: int
    last_epoch: int
    start_offset: int


class FollowerMachine:
    """Decides what one fetcher asks its leader for, and what to do with the answers. Its driver
    carries out each effect and reports the result with the stamp of the effect.
    """

    def __init__(
        self,
        backoff_ms: int,
        partition_bytes_max: int,
        is_throttling: Callable[[], bool] = lambda: False,
    ) -> None:
        self.backoff_ms = backoff_ms
        # Whether more is fetched than throttled partitions may.
        self._is_throttling = is_throttling
        self.partition_bytes_max = partition_bytes_max
        self.session = FetchSession()
        self.partitions: dict[PartitionId, Followed] = {}
        # Those that rest, in the order in which they began to; all rest equally long.
        self._resting: dict[PartitionId, None] = {}
        self._stamp = 0
        # The latest stamp when the fetch under way was made.
        self._asked_stamp = 0
        # For observers.
        self.damaged_count = 0
        self.stopped_count = 0

    # --- which partitions

    def follow(self, partition: PartitionId, leader_epoch: int, position: LogPosition) -> None:
        """Begins with a partition, or goes on with it under a new leader epoch."""
        self._stamp += 1
        self._resting.pop(partition, None)
        self.partitions[partition] = Followed(self._stamp, leader_epoch, *position)
        self._changed(partition)

    def unfollow(self, partition: PartitionId) -> None:
        if self.partitions.pop(partition, None) is not None:
            self._resting.pop(partition, None)
            self._changed(partition)

    def _changed(self, partition: PartitionId) -> None:
        """Tells the session what the next fetch should say of the partition."""
        followed = self.partitions.get(partition)
        if followed is None or followed.state is not State.READY:
            self.session.drop(partition)
            return
        self.session.want(
            partition,
            FetchPosition(
                followed.end_offset,
                followed.leader_epoch,
                followed.last_epoch,
                followed.start_offset,
                self.partition_bytes_max,
            ),
        )

    # --- rounds

    def next_fetch(self, now_ms: int) -> FetchPlan | None:
        """What to ask for now; None if no partition is ready."""
        for partition in tuple(self._resting):
            followed = self.partitions[partition]
            if followed.rest_until_ms > now_ms:
                break
            if followed.is_held and self._is_throttling():
                self._rest(partition, followed, now_ms)
            else:
                self._ready(partition, followed)
        self._asked_stamp = self._stamp
        return self.session.plan()

    @property
    def next_deadline_ms(self) -> int | None:
        """When a partition has rested enough."""
        for partition in self._resting:
            return self.partitions[partition].rest_until_ms
        return None

    def failed(self, now_ms: int) -> None:
        """The leader did not answer: it is asked again, by a full fetch, after a pause."""
        self.session.reset()
        for partition, followed in self.partitions.items():
            if followed.state is State.READY:
                self._rest(partition, followed, now_ms)

    def fetched(self, response: FetchResponse, now_ms: int) -> list[Effect]:
        """What to do with an answer."""
        if not self.session.answered(response.error_code, response.session_id):
            if response.error_code not in _SESSION_ERRORS:
                self.failed(now_ms)
            return []
        effects: list[Effect] = []
        for topic in response.responses:
            for data in topic.partitions:
                partition = (topic.topic_id, data.partition_index)
                followed = self.partitions.get(partition)
                # One that was given up, or followed again, while the fetch was under way is not
                # what the answer is about.
                if (
                    followed is not None
                    and followed.state is State.READY
                    and followed.stamp <= self._asked_stamp
                ):
                    effects += self._partition(partition, followed, data, now_ms)
        return effects

    def _partition(
        self, partition: PartitionId, followed: Followed, data: PartitionData, now_ms: int
    ) -> Iterator[Effect]:
        error = Errors.of(data.error_code)
        if error is Errors.NONE:
            target = self._busy(partition, followed)
            diverging = data.diverging_epoch
            if diverging is not None and diverging.end_offset >= 0:
                self._changed(partition)
                yield CutToDivergence(target, diverging.epoch, diverging.end_offset)
            else:
                yield Append(
                    target, data.records or b"", data.high_watermark, data.log_start_offset
                )
        elif error is Errors.OFFSET_OUT_OF_RANGE:
            target = self._busy(partition, followed)
            self._changed(partition)
            yield AskOffsets(target)
        elif error is Errors.OFFSET_MOVED_TO_TIERED_STORAGE:
            target = self._busy(partition, followed)
            self._changed(partition)
            yield Rebuild(target)
        elif error is Errors.FENCED_LEADER_EPOCH:
            # The leader is of a newer epoch, which the metadata will bring.
            self._stop(partition, followed)
        else:
            self._rest(partition, followed, now_ms)
            if error not in _EXPECTED:
                yield Report(partition, f"the leader refused a fetch: {error.message}")

    # --- results of work

    def done(self, target: Target, position: LogPosition) -> None:
        """The log was appended to, cut or restarted, and is there now."""
        followed = self._current(target)
        if followed is not None:
            followed.end_offset, followed.last_epoch, followed.start_offset = position
            self._ready(target.partition, followed)

    def held(self, target: Target, position: LogPosition, now_ms: int) -> None:
        """The log was appended to, and a throttle says that it is to wait."""
        followed = self._current(target)
        if followed is not None:
            followed.end_offset, followed.last_epoch, followed.start_offset = position
            followed.is_held = True
            self._rest(target.partition, followed, now_ms)

    def damaged(self, target: Target, position: LogPosition, reason: str, now_ms: int) -> Report:
        """Records did not pass their check: they are fetched again, after a pause.

        They may have been damaged on the way; if they are damaged at the leader, this goes on until
        somebody looks after it.
        """
        self.damaged_count += 1
        followed = self._current(target)
        if followed is not None:
            followed.end_offset, followed.last_epoch, followed.start_offset = position
            self._rest(target.partition, followed, now_ms)
        return Report(target.partition, f"damaged records came from the leader: {reason}")

    def broken(self, target: Target, reason: str) -> list[Report]:
        """The log cannot be worked on: the partition stops, and others go on."""
        followed = self._current(target)
        if followed is None:
            return []
        self._stop(target.partition, followed)
        return [Report(target.partition, f"replication stopped: {reason}")]

    def given_up(self, target: Target) -> None:
        """The work was for a leader epoch that is over; the new one is followed already."""
        followed = self._current(target)
        if followed is not None:
            self._stop(target.partition, followed)

    def offsets(
        self, target: Target, leader_start: int, leader_end: int, end_offset: int
    ) -> list[Effect]:
        """The leader's log, and the end of this one: why the offset was out of range."""
        followed = self._current(target)
        if followed is None:
            return []
        if leader_end < end_offset:
            return [
                Report(target.partition, f"cut from {end_offset} to the leader's {leader_end}"),
                Cut(target, leader_end),
            ]
        if leader_start > end_offset:
            return [Restart(target, leader_start)]
        self._ready(target.partition, followed)
        return []

    def failed_for_now(self, target: Target, now_ms: int) -> None:
        """What was to be done cannot be done yet: the leader is asked again after a pause."""
        followed = self._current(target)
        if followed is not None:
            self._rest(target.partition, followed, now_ms)

    # --- states

    def _current(self, target: Target) -> Followed | None:
        followed = self.partitions.get(target.partition)
        return followed if followed is not None and followed.stamp == target.stamp else None

    def _busy(self, partition: PartitionId, followed: Followed) -> Target:
        followed.state = State.BUSY
        return Target(partition, followed.stamp, followed.leader_epoch)

    def _ready(self, partition: PartitionId, followed: Followed) -> None:
        self._resting.pop(partition, None)
        followed.state = State.READY
        followed.is_held = False
        self._changed(partition)

    def _rest(self, partition: PartitionId, followed: Followed, now_ms: int) -> None:
        followed.state = State.RESTING
        followed.rest_until_ms = now_ms + self.backoff_ms
        self._resting.pop(partition, None)
        self._resting[partition] = None
        self._changed(partition)

    def _stop(self, partition: PartitionId, followed: Followed) -> None:
        self.stopped_count += 1
        followed.state = State.STOPPED
        self._resting.pop(partition, None)
        self._changed(partition)


# The session is started over, at once.
_SESSION_ERRORS: Final = frozenset(
    {
        Errors.FETCH_SESSION_ID_NOT_FOUND,
        Errors.INVALID_FETCH_SESSION_EPOCH,
        Errors.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
# What is normal while leaders move, topics come and go, and metadata is on its way.
_EXPECTED: Final = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.INCONSISTENT_TOPIC_ID,
        Errors.REPLICA_NOT_AVAILABLE,
    }
)


class EpochEnds(Protocol):
    """The leader epochs of a log."""

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The greatest known epoch not above `epoch` and its end; (-1, -1) if nothing fits."""
        ...


def cut_offset(epochs: EpochEnds, log_end: int, epoch: int, end_offset: int) -> int:
    """Where to cut a log that diverges from its leader's, in which `epoch` ends at `end_offset`.

    If this log does not know that epoch, it is cut to the end of the latest one before it, and the
    next fetch compares again.
    """
    if epoch == NO_EPOCH:
        return min(end_offset, log_end)
    own_epoch, own_end = epochs.end_offset_for(epoch, log_end)
    if own_epoch == NO_EPOCH:
        return min(end_offset, log_end)
    if own_epoch == epoch:
        return min(own_end, end_offset, log_end)
    return min(own_end, log_end)
