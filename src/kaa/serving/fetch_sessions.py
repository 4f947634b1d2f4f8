"""Incremental fetch sessions (KIP-227): a client names its partitions once and then only what
changed.

A session belongs to one client and holds the partitions it follows, with the position of each and
what it was sent last. A fetch carries a session id and an epoch:

| id, epoch | meaning |
|---|---|
| any, -1 | a full fetch outside of any session; a named session ends |
| any, 0 | a full fetch that asks for a session; a named one ends |
| id, n > 0 | the session's next fetch: its partitions change the session's, and the rest stays |

An incremental answer leaves out partitions with nothing new: no records, no error, and the same
high watermark and log start offset as last sent. Partitions that had data move to the back of the
order, so that none starves when the size of an answer is limited.

The cache holds a fixed number of sessions. A new one may displace the session that was used longest
ago if that was not lately, else one that is lesser: a consumer's before a follower's, one with
fewer partitions before one with more. Otherwise the client is served without a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.serving.session_watch import SessionWatch
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.wire.messages.k01_fetch import PartitionData
    from kaa.wire.primitives import Uuid

NO_SESSION: Final = 0
EPOCH_INITIAL: Final = 0
EPOCH_FINAL: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class PartitionKey(NamedTuple):
    """A partition as the client names it: by topic id, or by name in versions before 13."""

    topic: str
    topic_id: Uuid
    number: int


class Position(NamedTuple):
    """What a client asks of one partition."""

    fetch_offset: int
    bytes_max: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


class Sent(NamedTuple):
    """What the last answer said of a partition."""

    high_watermark: int = -1
    log_start_offset: int = -1


class FetchSession:
    """The partitions of one client, in the order in which they are served."""

    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "is_follower",
        "positions",
        "sent",
        "used_ms",
        "uses_ids",
        "watch",
    )

    def __init__(self, session_id: int, *, is_follower: bool, uses_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.is_follower = is_follower
        self.uses_ids = uses_ids
        # The epoch that the next request must have.
        self.epoch = 1
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.positions: dict[PartitionKey, Position] = {}
        self.sent: dict[PartitionKey, Sent] = {}
        # Which partitions have news for a follower.
        self.watch = SessionWatch() if is_follower else None

    def update(
        self, positions: Iterable[tuple[PartitionKey, Position]], forgotten: Iterable[PartitionKey]
    ) -> None:
        watch = self.watch
        for key, position in positions:
            self.positions[key] = position
            if watch is not None:
                watch.note(key)
        for key in forgotten:
            self.positions.pop(key, None)
            self.sent.pop(key, None)
            if watch is not None:
                watch.leave(key)

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()


class FetchContext:
    """How one fetch is served: which partitions, and which of them the answer names."""

    __slots__ = ("_session", "error", "positions", "watch")

    def __init__(
        self,
        positions: dict[PartitionKey, Position],
        session: FetchSession | None = None,
        error: Errors = Errors.NONE,
    ) -> None:
        # In the order in which they are read.
        self.positions = positions
        self.error = error
        self._session = session
        # Set for a follower that has heard of all its partitions before.
        self.watch: SessionWatch | None = None

    @property
    def session_id(self) -> int:
        return NO_SESSION if self._session is None else self._session.id

    def note_sent(self, key: PartitionKey, part: PartitionData) -> bool:
        """Remembers what the answer says of a partition; False if the client knows it already, and
        the answer need not name the partition. Records, an error, a diverging epoch and a better
        replica are always sent.
        """
        session = self._session
        if session is None:
            return True
        has_data = (
            part.records
            or part.error_code
            or part.diverging_epoch
            or part.preferred_read_replica >= 0
        )
        sent = Sent(part.high_watermark, part.log_start_offset)
        if not has_data and session.sent.get(key) == sent:
            return False
        session.sent[key] = sent
        if has_data and key in session.positions:
            session.positions[key] = session.positions.pop(key)
        return True

    def is_sent(self, key: PartitionKey, found: Sent) -> bool:
        """Whether an answer has said so of the partition already."""
        return self._session is not None and self._session.sent.get(key) == found


class FetchSessions:
    """The cache of sessions of one broker."""

    def __init__(self, sessions_max: int, eviction_ms: int, random_id: Callable[[], int]) -> None:
        self._sessions_max = sessions_max
        self._eviction_ms = eviction_ms
        # Gives a positive int32, not to be guessed, so that clients do not hit each other's
        # sessions.
        self._random_id = random_id
        # Least lately used first.
        self._sessions: dict[int, FetchSession] = {}
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.positions) for session in self._sessions.values())

    def context(
        self,
        session_id: int,
        epoch: int,
        positions: dict[PartitionKey, Position],
        forgotten: Iterable[PartitionKey],
        *,
        is_follower: bool,
        uses_ids: bool,
        now_ms: int,
    ) -> FetchContext:
        """Decides how a fetch is served."""
        if epoch in {EPOCH_INITIAL, EPOCH_FINAL}:
            self._end(session_id)
            if epoch == EPOCH_FINAL:
                return FetchContext(positions)
            return FetchContext(
                positions,
                self._create(positions, is_follower=is_follower, uses_ids=uses_ids, now_ms=now_ms),
            )
        session = self._sessions.get(session_id)
        if session is None:
            return FetchContext({}, error=Errors.FETCH_SESSION_ID_NOT_FOUND)
        if session.uses_ids != uses_ids:
            return FetchContext({}, error=Errors.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.epoch != epoch:
            return FetchContext({}, error=Errors.INVALID_FETCH_SESSION_EPOCH)
        session.update(positions.items(), forgotten)
        if not session.positions:
            # The client gave up its last partition, and the session with it.
            self._end(session_id)
            return FetchContext({})
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        session.used_ms = now_ms
        self._sessions[session_id] = self._sessions.pop(session_id)
        context = FetchContext(dict(session.positions), session)
        context.watch = session.watch
        return context

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _create(
        self,
        positions: dict[PartitionKey, Position],
        *,
        is_follower: bool,
        uses_ids: bool,
        now_ms: int,
    ) -> FetchSession | None:
        if not positions or not self._make_room(len(positions), is_follower, now_ms):
            return None
        session_id = self._random_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random_id()
        session = FetchSession(
            session_id, is_follower=is_follower, uses_ids=uses_ids, now_ms=now_ms
        )
        session.update(positions.items(), ())
        self._sessions[session_id] = session
        return session

    def _make_room(self, size: int, is_follower: bool, now_ms: int) -> bool:
        if len(self._sessions) < self._sessions_max:
            return True
        victim = self._victim(size, is_follower, now_ms)
        if victim is None:
            return False
        self._end(victim.id)
        self.evicted_count += 1
        return True

    def _victim(self, size: int, is_follower: bool, now_ms: int) -> FetchSession | None:
        if not self._sessions:
            return None
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > self._eviction_ms:
            return oldest
        # A young session is safe, so that clients which come and go cannot keep displacing each
        # other.
        replaceable = (
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > self._eviction_ms
            or (is_follower and not session.is_follower)
        )
        least = min(
            replaceable, key=lambda found: (found.is_follower, len(found.positions)), default=None
        )
        if least is None:
            return None
        is_lesser = (least.is_follower, len(least.positions)) < (is_follower, size)
        return least if is_lesser else None
