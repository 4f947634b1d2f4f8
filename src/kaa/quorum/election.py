"""The durable result of elections, and the count of votes in one.

`ElectionState` is what the quorum-state file holds: three facts that a replica must never forget,
or a voter could vote twice in one epoch and two leaders could be elected. It is on disk before
anyone hears of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.quorum.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.quorum.voters import ReplicaKey


class ElectionState(Value):
    """The content of the quorum-state file."""

    # Never falls, on one replica.
    epoch: int = 0
    # The leader of `epoch`; once known it does not change within the epoch.
    leader_id: int | None = None
    # Who got this replica's vote in `epoch`; once given it does not change within the epoch.
    voted_key: ReplicaKey | None = None


class Ballot:
    """The votes of one election of one nominee, which votes for itself if it votes at all: a
    replica whose removal is not committed may stand, and needs a majority of the others.
    """

    __slots__ = ("_votes",)

    def __init__(self, voter_ids: Iterable[int], nominee_id: int) -> None:
        # Every voter of the election: None until it answered, then whether it granted.
        self._votes: dict[int, bool | None] = dict.fromkeys(voter_ids)
        self.record(nominee_id, True)

    def record(self, voter_id: int, granted: bool) -> None:
        """Count an answer; one from a replica that does not vote counts nothing."""
        if voter_id in self._votes:
            self._votes[voter_id] = granted

    def granted_by(self) -> tuple[int, ...]:
        return tuple(voter for voter, granted in self._votes.items() if granted)

    def rejected_by(self) -> tuple[int, ...]:
        return tuple(voter for voter, granted in self._votes.items() if granted is False)

    def open(self) -> tuple[int, ...]:
        """The voters that have not answered."""
        return tuple(voter for voter, granted in self._votes.items() if granted is None)

    @property
    def is_won(self) -> bool:
        return len(self.granted_by()) >= self._majority

    @property
    def is_lost(self) -> bool:
        """Whether too many voters refused for a majority to be possible still."""
        return len(self._votes) - len(self.rejected_by()) < self._majority

    @property
    def _majority(self) -> int:
        return len(self._votes) // 2 + 1

    def __repr__(self) -> str:
        return (
            f"Ballot(granted={self.granted_by()}, rejected={self.rejected_by()},"
            f" open={self.open()})"
        )
