"""Which state may follow which, and what the epoch does on the way: the only place that says so.

| from | to | when |
|---|---|---|
| Unattached | Unattached | a higher epoch is seen, or a vote is given in this one |
| | Prospective | no leader was found within the election timeout |
| | Follower | a leader of this or a higher epoch is found |
| Prospective | Unattached | a higher epoch is seen; or too few votes, and no leader is known |
| | Prospective | a vote is given in this epoch: count again |
| | Candidate | a majority would vote for it: one epoch up |
| | Follower | a leader is found; or too few would vote for it: back to the leader it had |
| Candidate | Unattached | a higher epoch is seen |
| | Prospective | not elected within the election timeout |
| | Leader | a majority voted for it |
| | Follower | a leader of this or a higher epoch is found |
| Leader | Unattached | a higher epoch is seen |
| | Follower | a leader of a higher epoch is found |
| | Resigned | shutdown, no majority heard from, or the local state machine asked |
| Follower | Unattached | a higher epoch is seen |
| | Prospective | the leader did not answer within the fetch timeout |
| | Follower | a leader of a higher epoch is found, or more endpoints of this one |
| Resigned | Unattached | a higher epoch is seen; or the election timeout passed: one epoch up |
| | Prospective | a quorum of one starts again |
| | Follower | a leader of a higher epoch is found |
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kaa.quorum.leader import Leader
from kaa.quorum.states import Candidate, Follower, Prospective, Resigned, Unattached

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.quorum.states import State


class EpochStep(Enum):
    """What the epoch may do in a transition."""

    SAME = "stays"
    SAME_OR_HIGHER = "stays or rises"
    HIGHER = "rises"
    NEXT = "rises by one"

    def allows(self, old: int, new: int) -> bool:
        if self is EpochStep.SAME:
            return new == old
        if self is EpochStep.SAME_OR_HIGHER:
            return new >= old
        if self is EpochStep.HIGHER:
            return new > old
        return new == old + 1


LEGAL_TRANSITIONS: dict[tuple[type, type], EpochStep] = {
    (Unattached, Unattached): EpochStep.SAME_OR_HIGHER,
    (Unattached, Prospective): EpochStep.SAME,
    (Unattached, Follower): EpochStep.SAME_OR_HIGHER,
    (Prospective, Unattached): EpochStep.SAME_OR_HIGHER,
    (Prospective, Prospective): EpochStep.SAME,
    (Prospective, Candidate): EpochStep.NEXT,
    (Prospective, Follower): EpochStep.SAME_OR_HIGHER,
    (Candidate, Unattached): EpochStep.HIGHER,
    (Candidate, Prospective): EpochStep.SAME,
    (Candidate, Leader): EpochStep.SAME,
    (Candidate, Follower): EpochStep.SAME_OR_HIGHER,
    (Leader, Unattached): EpochStep.HIGHER,
    (Leader, Follower): EpochStep.HIGHER,
    (Leader, Resigned): EpochStep.SAME,
    (Follower, Unattached): EpochStep.HIGHER,
    (Follower, Prospective): EpochStep.SAME,
    (Follower, Follower): EpochStep.SAME_OR_HIGHER,
    (Resigned, Unattached): EpochStep.HIGHER,
    (Resigned, Prospective): EpochStep.SAME,
    (Resigned, Follower): EpochStep.HIGHER,
}


class QuorumError(Exception):
    """The replica must stop: going on could lose committed data. Carries what the replica did
    before.
    """

    def __init__(self, message: str, story: Iterable[str]) -> None:
        self.story = tuple(story)
        super().__init__("\n  ".join((message, *self.story)))


class IllegalTransitionError(QuorumError):
    """A state was to follow another that it may not follow: a fault in this package."""


def check_transition(old: State, new: State, story: Iterable[str]) -> None:
    """Raise unless the table allows the transition and facts fixed for an epoch stay fixed within
    it.
    """
    names = f"{type(old).__name__}({old.epoch}) -> {type(new).__name__}({new.epoch})"
    step = LEGAL_TRANSITIONS.get((type(old), type(new)))
    if step is None:
        raise IllegalTransitionError(f"{names} is not a transition", story)
    if not step.allows(old.epoch, new.epoch):
        raise IllegalTransitionError(f"{names}: the epoch {step.value} here", story)
    if new.epoch > old.epoch:
        return
    if old.leader_id is not None and new.leader_id != old.leader_id:
        raise IllegalTransitionError(
            f"{names}: the leader of the epoch was {old.leader_id}, not {new.leader_id}",
            story,
        )
    forgets_vote = old.voted_key is not None and new.voted_key != old.voted_key
    if forgets_vote and not isinstance(new, Leader):
        raise IllegalTransitionError(f"{names}: the vote for {old.voted_key} is forgotten", story)
