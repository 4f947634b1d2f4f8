"""How a modern group is found, joined and full, and what becomes of members that are late."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.coordinators.group.classic.records import group_tombstone
from kaa.coordinators.group.modern.group import ModernGroup
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.model.words import count_text
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.modern.timers import MemberLate
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.model.pieces import Pieces

_Group = TypeVar("_Group", bound=ModernGroup[Any, Any, Any])
_Times = TypeVar("_Times")


class ModernGroups(ABC, Generic[_Group, _Times]):
    """The groups of one kind among those of the machine, which owns them."""

    def __init__(
        self,
        kind: type[_Group],
        groups: TimelineDict[str, Group],
        timeline: Timeline,
        settings: Callable[[], GroupSettings],
        times: Callable[[str], _Times],
        topics: GroupTopics,
    ) -> None:
        self._kind = kind
        self._groups = groups
        self._timeline = timeline
        self.settings = settings
        self.times = times
        self.topics = topics

    def known(self, group_id: str) -> _Group | None:
        """The group of this name, if it is there and of this kind."""
        group: Any = self._groups.get(group_id)
        return group if isinstance(group, self._kind) else None

    def find(self, group_id: str) -> _Group:
        """The group of this name and kind; GROUP_ID_NOT_FOUND if there is none."""
        found = self.known(group_id)
        if found is not None:
            return found
        group = self._groups.get(group_id)
        what = f"There is no group {group_id}."
        if group is not None:
            what = f"Group {group_id} is a {group.kind} group."
        raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND, what)

    def find_or_new(self, group_id: str) -> _Group:
        """The same, or a group that nobody knows yet."""
        if group_id not in self._groups:
            return self._new(group_id)
        return self.find(group_id)

    def take_over_or_new(self, group_id: str, records: list[NewRecord]) -> _Group:
        """The same; a classic group without members gives way."""
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup) and group.is_in(ClassicGroupState.EMPTY):
            records.append(group_tombstone(group_id))
            return self._new(group_id)
        return self.find_or_new(group_id)

    def _new(self, group_id: str) -> _Group:
        new_group: Any = self._kind
        return new_group(group_id, self._timeline)  # type: ignore[no-any-return]

    def _check_room(self, group: _Group, size_max: int) -> None:
        if len(group.members) >= size_max:
            raise CoordinatorError(
                Errors.GROUP_MAX_SIZE_REACHED,
                f"Group {group.group_id} has {count_text(size_max, 'member')}, which is the limit.",
            )

    def expire(
        self, event: MemberLate, now: Moment
    ) -> CoordinatorResult | Pieces[CoordinatorResult]:
        group = self.known(event.group_id)
        member = None if group is None else group.members.get(event.member_id)
        if group is None or member is None or event.epoch not in {None, member.member_epoch}:
            return CoordinatorResult()
        return self.fence(group, [member], now)

    @abstractmethod
    def fence(
        self, group: _Group, members: Iterable[Any], now: Moment, response: object = None
    ) -> CoordinatorResult | Pieces[CoordinatorResult]:
        """Takes members out of their group, which gets another epoch."""

    @abstractmethod
    def loaded(self, group: _Group, now: Moment) -> None:
        """Gives the members of a loaded group their deadlines."""
