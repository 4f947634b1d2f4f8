"""A group whose members follow a target assignment: what every kind of them has.

It has *epochs*, *members*, and for each member a *target*. They change by records alone
(`replay_...`) and live on the timeline. What a member and its target look like is up to the kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.timeline import TimelineDict
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.coordinators.group.assignors.table import Assignment
    from kaa.coordinators.timeline import Timeline
    from kaa.model.pieces import Pieces
    from kaa.wire.schema import CoordinatorKey

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
# A static member that is about to come back: it keeps what it owns until its session ends.
STATIC_LEAVE_EPOCH: Final = -2
_SELF: Final = ""


class ModernEpochs(Protocol):
    """What a group has besides its members; each kind may add to it."""

    @property
    def group_epoch(self) -> int: ...
    @property
    def metadata_hash(self) -> int: ...
    @property
    def assignment_epoch(self) -> int: ...
    # When the assignment was computed; 0 if that is not known.
    @property
    def assignment_timestamp_ms(self) -> int: ...
    def _replace(self, *args: Any, **changes: Any) -> Any: ...


class ModernMember(Protocol):
    """A member, as a value that is replaced when something changes."""

    @property
    def member_id(self) -> str: ...
    @property
    def member_epoch(self) -> int: ...
    def with_metadata(self, value: Any, /) -> Self:
        """The member as its metadata record says."""

    def with_assignment(self, value: Any, /) -> Pieces[Self]:
        """The member as the record of its current assignment says."""
        ...

    def without_assignment(self) -> Self:
        """The member when the record of its current assignment is gone."""


Epochs = TypeVar("Epochs", bound=ModernEpochs)
Member = TypeVar("Member", bound=ModernMember)
Target = TypeVar("Target")


class ModernGroup(ABC, Generic[Epochs, Member, Target]):
    """A group in memory: what every kind has. Changed by its `replay_` methods alone."""

    kind: str
    protocol_type: str

    def __init__(
        self,
        group_id: str,
        timeline: Timeline,
        first_epochs: Epochs,
        new_member: Callable[[str], Member],
    ) -> None:
        self.group_id = group_id
        self._first_epochs = first_epochs
        self._new_member = new_member
        self._epochs: TimelineDict[str, Epochs] = TimelineDict(timeline)
        self.members: TimelineDict[str, Member] = TimelineDict(timeline)
        self.targets: TimelineDict[str, Target] = TimelineDict(timeline)
        # When the topics of the group were last looked at: the version of topics, and the epoch
        # of the group, which an append that fails may take back.
        self.topics_checked: tuple[int, int] = (-1, -1)

    # --- questions

    @property
    def epochs(self) -> Epochs:
        return self._epochs.get(_SELF) or self._first_epochs

    @epochs.setter
    def epochs(self, epochs: Epochs) -> None:
        self._epochs[_SELF] = epochs

    @property
    def committed_epochs(self) -> Epochs:
        return self._epochs.committed(_SELF) or self._first_epochs

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    @abstractmethod
    def shown_state(self) -> str:
        """The state as readers see it."""

    def member(self, member_id: str) -> Member:
        found = self.members.get(member_id)
        if found is None:
            raise CoordinatorError(
                Errors.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id}."
            )
        return found

    def validate_delete(self) -> None:
        if not self.is_empty:
            raise CoordinatorError(Errors.NON_EMPTY_GROUP)

    def has_checked_topics(self, version: int) -> bool:
        """Whether the topics of this version were looked at, and the outcome is not taken back."""
        checked_version, checked_epoch = self.topics_checked
        return version == checked_version and self.epochs.group_epoch >= checked_epoch

    # --- members, who may have thousands of topics

    def put(self, member: Member) -> Pieces[None]:
        yield from self._own(self.members.get(member.member_id), member)
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> Pieces[None]:
        known = self.members.get(member_id)
        if known is not None:
            yield from self._own(known, known.without_assignment())
            self.members.pop(member_id)

    def _own(self, known: Member | None, member: Member) -> Pieces[None]:
        """What a member had is free, and what it has now is not, where a kind counts that."""
        yield from ()

    # --- replay

    def replay_epoch(self, value: Any) -> None:
        self.epochs = self.epochs._replace(
            group_epoch=value.epoch, metadata_hash=value.metadata_hash
        )

    def replay_target_epoch(self, value: Any) -> None:
        self.epochs = self.epochs._replace(
            assignment_epoch=-1 if value is None else value.assignment_epoch,
            assignment_timestamp_ms=0 if value is None else value.assignment_timestamp,
        )

    def replay_target(self, member_id: str, value: Any) -> Pieces[None]:
        if value is None:
            self.targets.pop(member_id)
        else:
            self.targets[member_id] = yield from self._target_of(value)

    def replay_member(self, member_id: str, value: Any) -> Pieces[None]:
        if value is None:
            yield from self.remove(member_id)
        else:
            yield from self.put(self._known_or_new(member_id).with_metadata(value))

    def replay_current(self, member_id: str, value: Any) -> Pieces[None]:
        if value is not None:
            member = yield from self._known_or_new(member_id).with_assignment(value)
            yield from self.put(member)
        elif member_id in self.members:
            yield from self.put(self.members[member_id].without_assignment())

    @abstractmethod
    def replay_own(self, key: CoordinatorKey, value: Any) -> None:
        """A record of a type that only this kind of group has."""

    def _known_or_new(self, member_id: str) -> Member:
        return self.members.get(member_id) or self._new_member(member_id)

    @abstractmethod
    def _target_of(self, value: Any) -> Pieces[Target]:
        """The target that a record says."""


def can_compute(assignment_timestamp_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Assignments of a group have a pause between them (KIP-1263); the first one never waits.

    Nor does one after an assignment that seems to be of the future: the date was set back since,
    and would have to pass a second time. A pause too few does no harm.
    """
    if assignment_timestamp_ms == 0 or interval_ms == 0:
        return True
    return not 0 <= now_ms - assignment_timestamp_ms < interval_ms


def partitions_by_topic(topics: Iterable[Any]) -> Pieces[Assignment]:
    """Partitions as a record lists them by topic id."""
    found = yield from mapped(lambda one: (one.topic_id, frozenset(one.partitions)), topics)
    return dict(found)
