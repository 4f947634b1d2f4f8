"""The committer of a table, as a machine: events in, effects out.

One round:

    LoadTable -> Loaded -> FindEnds -> EndsFound
        -> WriteRound -> RoundWritten -> Commit -> Committed

A commit names the version of the table that the round was planned on; the table takes it only if
it is still at that version. The machine never commits the same files twice without having looked:

- *Conflict* (somebody else committed): the table is loaded again. If its offsets are where the
  round began, the other commit was maintenance, and the same files are committed on top of it. If
  they moved, another committer was faster: our files are dropped and a new round is planned.
- *Unknown outcome* (no answer to the commit): the table is loaded again. If its newest offsets
  were committed under our commit id, it was our commit that came through. Otherwise as above; but
  files whose commit is in doubt are never deleted here, since a commit that is still on its way
  could make them part of the table. Maintenance removes them when they are a day old.
- *Stale* (the table was changed so that the files no longer fit): they are dropped, unless a commit
  of theirs is in doubt, and the round is planned again.
- *A crash* leaves files that no commit names, and nothing else.

A round that could not be written is planned again, a limited number of times in a row; so is a
commit without an answer repeated. A table that cannot be looked at is looked at again after a
pause, with the round as it was.

A committer that keeps running rests after a round that has read all there was, so that what comes
in meanwhile is one commit and not many. While there is more to read it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from kaa.limits import LAKE_ATTEMPTS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Files = TypeVar("Files")
Offsets: TypeAlias = "Mapping[int, int]"
"""The next offset of each partition."""


# --- events


@dataclass(frozen=True, slots=True)
class Loaded:
    """The table as it is: its version, and the offsets of its newest commit that has any."""

    version: str
    offsets: Offsets
    commit_id: str


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The table could not be looked at."""

    reason: str


@dataclass(frozen=True, slots=True)
class EndsFound:
    """How far each partition may be read, and where those begin that the table does not know."""

    starts: Offsets
    ends: Offsets


@dataclass(frozen=True, slots=True)
class RoundWritten(Generic[Files]):
    """The files of the round are in place."""

    files: Files


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """The round could not be written."""

    reason: str


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit was taken."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The table was at another version; nothing of the commit was taken."""


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """Whether the commit was taken is not known."""

    reason: str = "no answer came"


@dataclass(frozen=True, slots=True)
class RoundStale:
    """The files cannot be committed to the table as it is now; this commit was not sent."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waited:
    """The pause is over."""


# --- effects


@dataclass(frozen=True, slots=True)
class LoadTable:
    """Look at the table."""


@dataclass(frozen=True, slots=True)
class FindEnds:
    """Ask the brokers how far partitions may be read."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class WriteRound:
    """Write the files of these ranges; their names carry the commit id."""

    commit_id: str
    starts: Offsets
    ends: Offsets


@dataclass(frozen=True, slots=True)
class Commit(Generic[Files]):
    """Add the files and the offsets, if the table is at the version."""

    version: str
    commit_id: str
    files: Files | None
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class DropFiles(Generic[Files]):
    """Delete files that no commit names or can still name."""

    files: Files


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing to do for now."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """Something failed; the longer, the more often in a row."""

    failures: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The work is done, or cannot go on: then there is a reason."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Round(Generic[Files]):
    """A round under way."""

    commit_id: str
    # Where all partitions of the table were, and where they will be.
    before: Offsets
    after: Offsets
    files: Files | None = None
    # Set when a commit of these files had no clear answer.
    is_in_doubt: bool = False


class Committer(Generic[Files]):
    """The machine. `plan` chooses the ends of a round; `new_id` makes ids of commits."""

    def __init__(
        self,
        plan: Callable[[Offsets, Offsets], Offsets],
        new_id: Callable[[], str],
        *,
        is_once: bool,
    ) -> None:
        self._plan = plan
        self._new_id = new_id
        # With `is_once` the ends of the first look are the goal, and reaching them the end.
        self._is_once = is_once
        self._goal: Offsets | None = None
        # The version that the next commit names; set by each load.
        self._version = ""
        self._offsets: Offsets = {}
        self._round: _Round[Files] | None = None
        self._failures = 0
        # Whether the round under way reads all that was there when it was planned.
        self._reads_all = False
        self._rests_next = False
        self.rounds_committed = 0

    def start(self) -> list[object]:
        """The first effects; then `handle` gives what follows from each event."""
        return [LoadTable()]

    def handle(self, event: object) -> list[object]:
        """What is to be done next, in order."""
        match event:
            case Loaded():
                return self._loaded(event)
            case EndsFound():
                return self._ends_found(event)
            case RoundWritten():
                assert self._round is not None, "files of no round"
                now = self._round
                self._round = _Round(now.commit_id, now.before, now.after, event.files)
                return [self._commit(self._round)]
            case WriteFailed():
                return self._failed(event.reason)
            case RoundStale():
                return [*self._dropped(), *self._failed(event.reason)]
            case Committed():
                return self._committed()
            case Conflict():
                return [LoadTable()]
            case OutcomeUnknown():
                assert self._round is not None, "the outcome of no commit"
                now = self._round
                self._round = _Round(
                    now.commit_id, now.before, now.after, now.files, is_in_doubt=True
                )
                self._failures += 1
                if self._failures >= LAKE_ATTEMPTS_MAX:
                    unknown = "it is not known whether a round was committed"
                    return [Stop(f"{unknown}: {event.reason}")]
                return [LoadTable()]
            case Waited():
                return [LoadTable()]
            case LoadFailed():
                return self._not_loaded(event.reason)
        raise TypeError(f"no event: {event!r}")

    def _loaded(self, table: Loaded) -> list[object]:
        self._version = table.version
        self._offsets = dict(table.offsets)
        now = self._round
        if now is None:
            if self._rests_next:
                self._rests_next = False
                return [Wait()]
            return [FindEnds(self._offsets)]
        if table.commit_id == now.commit_id:
            return self._committed()
        if _same(table.offsets, now.before):
            # Maintenance came between, or the commit got lost on its way: it is safe to repeat,
            # since the version lets only one of both through.
            return [self._commit(now)]
        dropped = self._dropped()
        self._round = None
        return [*dropped, FindEnds(self._offsets)]

    def _dropped(self) -> list[object]:
        """The files of the round under way are deleted, if no commit can still name them."""
        now = self._round
        if now is None or now.files is None or now.is_in_doubt:
            return []
        return [DropFiles(now.files)]

    def _ends_found(self, found: EndsFound) -> list[object]:
        before = {**found.starts, **self._offsets}
        if self._is_once:
            if self._goal is None:
                self._goal = dict(found.ends)
            ends: Offsets = {
                partition: min(end, self._goal.get(partition, 0))
                for partition, end in found.ends.items()
            }
        else:
            ends = found.ends
        after = {**before, **self._plan(before, ends)}
        if any(after[partition] < offset for partition, offset in before.items()):
            return [Stop("the plan would take offsets back")]
        is_pinned = not self._offsets and bool(before)
        if _same(after, before) and not is_pinned:
            return [Stop()] if self._is_once else [Wait()]
        self._reads_all = all(after[partition] >= end for partition, end in ends.items())
        commit_id = self._new_id()
        self._round = _Round(commit_id, dict(self._offsets), after)
        if _same(after, before):
            # A new table that has nothing to read yet: where it begins is committed at once.
            return [self._commit(self._round)]
        return [WriteRound(commit_id, before, after)]

    def _commit(self, now: _Round[Files]) -> Commit[Files]:
        return Commit(self._version, now.commit_id, now.files, now.after)

    def _committed(self) -> list[object]:
        self._round = None
        self._failures = 0
        self._rests_next = self._reads_all and not self._is_once
        self.rounds_committed += 1
        return [LoadTable()]

    def _not_loaded(self, reason: str) -> list[object]:
        """A round under way stays: whether it was committed is seen by the load that succeeds."""
        self._failures += 1
        if self._failures >= LAKE_ATTEMPTS_MAX:
            return [Stop(f"the table cannot be looked at: {reason}")]
        return [BackOff(self._failures), LoadTable()]

    def _failed(self, reason: str) -> list[object]:
        self._round = None
        self._failures += 1
        if self._failures >= LAKE_ATTEMPTS_MAX:
            return [Stop(f"{self._failures} rounds in a row failed: {reason}")]
        return [LoadTable()]


def _same(one: Offsets, other: Offsets) -> bool:
    return dict(one) == dict(other)
