"""Share sessions: which partitions each member of a share group fetches from this broker.

A member opens a session with epoch 0, and from then on names only what changed; each request has
the epoch that follows. Epoch -1 ends the session. A session belongs to the connection that opened
it and ends with that: what the member holds goes back to the others at once, not when its locks run
out.

There are at most `group.share.max.share.sessions`. No session is evicted for a new one: a member
that comes too late is refused, after a short wait, so that it does not come again at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from kaa.wire.primitives import PartitionId

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class ShareSessionError(Exception):
    """A request that does not fit its session."""

    def __init__(self, error: Errors) -> None:
        super().__init__(error.name)
        self.error = error


class ShareSession:
    """What a member fetches from this broker, and the epoch of its next request."""

    __slots__ = ("epoch", "group_id", "is_closed", "member_id", "owner", "partitions")

    def __init__(self, group_id: str, member_id: str, owner: Hashable) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.owner = owner
        self.epoch = next_epoch(INITIAL_EPOCH)
        # In the order in which they came; True for those that the next answer has to name, although
        # there is nothing to tell of them.
        self.partitions: dict[PartitionId, bool] = {}
        self.is_closed = False


class ShareSessions:
    """The share sessions of this broker. A session that is unknown, refused, or asked for with the
    wrong epoch raises ShareSessionError, which has the error for the member.
    """

    def __init__(self, count_max: Callable[[], int]) -> None:
        self._count_max = count_max
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._by_owner: dict[Hashable, dict[tuple[str, str], None]] = {}
        # How many of each group there are.
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        return group_id in self._counts

    def get(self, group_id: str, member_id: str) -> ShareSession:
        found = self._sessions.get((group_id, member_id))
        if found is None:
            raise ShareSessionError(Errors.SHARE_SESSION_NOT_FOUND)
        return found

    def open(
        self, group_id: str, member_id: str, partitions: Iterable[PartitionId], owner: Hashable
    ) -> ShareSession:
        """A new session, instead of one that the member may have had."""
        self.remove(group_id, member_id)
        if len(self._sessions) >= self._count_max():
            raise ShareSessionError(Errors.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, owner)
        session.partitions = dict.fromkeys(partitions, False)
        self._sessions[group_id, member_id] = session
        self._by_owner.setdefault(owner, {})[group_id, member_id] = None
        self._counts[group_id] = self._counts.get(group_id, 0) + 1
        return session

    def advance(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session of a request that has its epoch; the next one has the next."""
        session = self.get(group_id, member_id)
        if epoch != session.epoch:
            raise ShareSessionError(Errors.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = next_epoch(epoch)
        return session

    def update(
        self, session: ShareSession, added: Iterable[PartitionId], forgotten: Iterable[PartitionId]
    ) -> None:
        for one in added:
            session.partitions.setdefault(one, True)
        for one in forgotten:
            session.partitions.pop(one, None)

    def remove(self, group_id: str, member_id: str) -> ShareSession | None:
        key = (group_id, member_id)
        session = self._sessions.pop(key, None)
        if session is None:
            return None
        session.is_closed = True
        owned = self._by_owner[session.owner]
        del owned[key]
        if not owned:
            del self._by_owner[session.owner]
        self._counts[group_id] -= 1
        if not self._counts[group_id]:
            del self._counts[group_id]
        return session

    def of_owner(self, owner: Hashable) -> list[ShareSession]:
        return [self._sessions[key] for key in self._by_owner.get(owner, ())]


def next_epoch(epoch: int) -> int:
    """The epoch of the request that follows, which has no meaning of its own."""
    return 1 if epoch in {FINAL_EPOCH, _EPOCH_MAX} else epoch + 1
