"""The records that every kind of modern group has in the offsets topic, written and read.

| record | says |
|---|---|
| epoch | the epoch of the group, and the hash of the topics it was made for |
| member | who a member is, and what it wants |
| target epoch | the epoch of the target assignment, and when it was computed |
| target | what a member is to have |
| current | what a member has, at which epoch |

A kind names its types of these, and how a member and a target become values; it may have types of
its own besides. A member may have thousands of topics: records of what it has are made in pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from kaa.coordinators.group.modern.group import Member, Target
from kaa.coordinators.machine import NewRecord
from kaa.model.pieces import begun

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.modern.group import ModernGroup
    from kaa.coordinators.records import RecordType
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.model.pieces import Pieces
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue


def tombstone(of: RecordType, **key: str) -> NewRecord:
    """The record that takes another one away, which has this key."""
    new_key: Any = of.key
    return NewRecord(new_key(**key), None)


@dataclass(frozen=True)
class ModernRecords(Generic[Member, Target]):
    """Writes and replays the records of one kind of group, by its types of records and values."""

    group: type[ModernGroup[Any, Member, Target]]
    epoch: RecordType
    member: RecordType
    target_epoch: RecordType
    target: RecordType
    current: RecordType
    own: tuple[RecordType, ...]
    member_value: Callable[[Member], CoordinatorValue]
    target_value: Callable[[Target], Pieces[CoordinatorValue]]
    current_value: Callable[[Member], Pieces[CoordinatorValue]]

    @property
    def types(self) -> tuple[RecordType, ...]:
        return (
            self.epoch,
            self.member,
            self.target_epoch,
            self.target,
            self.current,
            *self.own,
        )

    # --- writing

    def epoch_record(
        self, group_id: str, epoch: int, metadata_hash: int, **more: object
    ) -> NewRecord:
        key: Any = self.epoch.key
        value: Any = self.epoch.value
        return NewRecord(
            key(group_id=group_id), value(epoch=epoch, metadata_hash=metadata_hash, **more)
        )

    def member_record(self, group_id: str, member: Member) -> NewRecord:
        return _of_member(self.member, group_id, member.member_id, self.member_value(member))

    def target_record(self, group_id: str, member_id: str, target: Target) -> Pieces[NewRecord]:
        value = yield from self.target_value(target)
        return _of_member(self.target, group_id, member_id, value)

    def current_record(self, group_id: str, member: Member) -> Pieces[NewRecord]:
        value = yield from self.current_value(member)
        return _of_member(self.current, group_id, member.member_id, value)

    def target_epoch_record(self, group_id: str, epoch: int, now_ms: int) -> NewRecord:
        key: Any = self.target_epoch.key
        value: Any = self.target_epoch.value
        return NewRecord(
            key(group_id=group_id), value(assignment_epoch=epoch, assignment_timestamp=now_ms)
        )

    def target_records(
        self,
        group: ModernGroup[Any, Member, Target],
        epoch: int,
        found: Mapping[str, Target],
        now_ms: int,
    ) -> Pieces[list[NewRecord]]:
        """Records of those members whose target has changed, and of the epoch."""
        records = []
        for member_id, target in found.items():
            if target != group.targets.get(member_id):
                records.append((yield from self.target_record(group.group_id, member_id, target)))
        return [*records, self.target_epoch_record(group.group_id, epoch, now_ms)]

    def remove_member(self, group_id: str, member_id: str) -> list[NewRecord]:
        """Records that take a member out of its group."""
        types = (self.current, self.target, self.member)
        return [tombstone(of, group_id=group_id, member_id=member_id) for of in types]

    def remove_group(
        self, group_id: str, member_ids: Collection[str], *own: NewRecord
    ) -> list[NewRecord]:
        """Records that remove a group with these members, and with its own types of records."""

        def of_members(of: RecordType) -> list[NewRecord]:
            return [tombstone(of, group_id=group_id, member_id=one) for one in member_ids]

        return [
            *of_members(self.current),
            *of_members(self.target),
            tombstone(self.target_epoch, group_id=group_id),
            *of_members(self.member),
            *own,
            tombstone(self.epoch, group_id=group_id),
        ]

    # --- reading

    def replay(
        self, groups: TimelineDict[str, Group], timeline: Timeline, key: CoordinatorKey, value: Any
    ) -> Pieces[None] | None:
        """Puts a record of this kind into memory; what is left, if it names thousands of topics."""
        found: Any = key
        group = self._replayed_group(groups, timeline, found.group_id, value)
        if group is None:
            return None
        of = type(key)
        if of is self.member.key:
            return begun(group.replay_member(found.member_id, value))
        if of is self.target.key:
            return begun(group.replay_target(found.member_id, value))
        if of is self.current.key:
            return begun(group.replay_current(found.member_id, value))
        if of is self.epoch.key:
            if value is None:
                assert group.is_empty, f"group {group.group_id} is deleted while it has members"
                groups.pop(group.group_id)
            else:
                group.replay_epoch(value)
        elif of is self.target_epoch.key:
            group.replay_target_epoch(value)
        else:
            group.replay_own(key, value)
        return None

    def _replayed_group(
        self,
        groups: TimelineDict[str, Group],
        timeline: Timeline,
        group_id: str,
        value: object,
    ) -> ModernGroup[Any, Member, Target] | None:
        """The group that a record is of; None for a tombstone of one that is not there.

        The first record of a group makes it, in the place of one that only commits offsets. A
        tombstone for a group that is not there says nothing: its records were compacted away.
        """
        group: Any = groups.get(group_id)
        if not isinstance(group, self.group):
            if value is None:
                return None
            new_group: Any = self.group
            group = groups[group_id] = new_group(group_id, timeline)
        return group  # type: ignore[no-any-return]


def _of_member(of: RecordType, group_id: str, member_id: str, value: CoordinatorValue) -> NewRecord:
    """The record of a member that has this value."""
    key: Any = of.key
    return NewRecord(key(group_id=group_id, member_id=member_id), value)
