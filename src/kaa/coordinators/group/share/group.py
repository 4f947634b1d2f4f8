"""A share group: members, what each is to read, and which partitions have share state.

Nothing is revoked in a share group, so a member follows the target assignment at once, and the
group is stable as soon as its assignment is:

| state | when |
|---|---|
| Empty | no members |
| Stable | it has members |
| Dead | the group is gone |

A partition is assigned once its share state is initialised. The three stages of that are stored in
one record: *initialising*, *initialised*, and *deleting*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.coordinators.group.modern.group import LEAVE_EPOCH, ModernGroup, partitions_by_topic
from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.timeline import TimelineDict
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.assignors.table import Assignment
    from kaa.coordinators.timeline import Timeline
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.offsets_share import (
        ShareGroupCurrentMemberAssignmentValue,
        ShareGroupMemberMetadataValue,
        ShareGroupStatePartitionMetadataValue,
        ShareGroupTargetAssignmentMemberValue,
        TopicPartitionsInfo,
    )
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import CoordinatorKey

_SELF: Final = ""


class ShareMember(NamedTuple):
    """A member, as a value that is replaced when something changes."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    # Never changed in place.
    assigned: Assignment = {}  # noqa: RUF012

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> ShareMember:
        return self._replace(
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
        )

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> Pieces[ShareMember]:
        return self._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            assigned=(yield from partitions_by_topic(value.assigned_partitions)),
        )

    def without_assignment(self) -> ShareMember:
        return self._replace(
            member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, assigned={}
        )


class ShareEpochs(NamedTuple):
    """What a group has besides its members."""

    group_epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 1
    assignment_timestamp_ms: int = 0


class InitialisedTopic(NamedTuple):
    """Partitions of a topic that have share state, or are about to."""

    name: str
    partitions: frozenset[int]


class StatePartitions(NamedTuple):
    """Partitions by the stage of their share state. Never changed in place."""

    initialising: dict[Uuid, InitialisedTopic] = {}  # noqa: RUF012
    initialised: dict[Uuid, InitialisedTopic] = {}  # noqa: RUF012
    deleting: dict[Uuid, str] = {}  # noqa: RUF012


class ShareGroup(ModernGroup[ShareEpochs, ShareMember, "Assignment"]):
    """A share group in memory. Values that are stored are set by replaying records; the
    `committed_` ones are what a describe may show.
    """

    kind = "share"
    protocol_type = "share"

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        super().__init__(group_id, timeline, ShareEpochs(), ShareMember)
        self._partitions: TimelineDict[str, StatePartitions] = TimelineDict(timeline)
        # For which epochs, share state and version of topics nothing was left to be done.
        self._settled: tuple[ShareEpochs, StatePartitions, int] | None = None

    def settle(self, topics_version: int) -> None:
        """Everything is initialised and assigned, as a look at all of it has shown."""
        self._settled = (self.epochs, self.partitions, topics_version)

    def is_settled(self, topics_version: int) -> bool:
        """Whether nothing has changed since then; values of a timeline are replaced, never changed,
        and members that come, change or go bring another epoch.
        """
        if self._settled is None:
            return False
        epochs, partitions, version = self._settled
        return epochs is self.epochs and partitions is self.partitions and version == topics_version

    @property
    def partitions(self) -> StatePartitions:
        return self._partitions.get(_SELF) or StatePartitions()

    @property
    def has_partitions(self) -> bool:
        """Whether it was ever noted which partitions have share state."""
        return _SELF in self._partitions

    @property
    def committed_partitions(self) -> StatePartitions:
        return self._partitions.committed(_SELF) or StatePartitions()

    @property
    def shown_state(self) -> str:
        """The state as readers see it."""
        return "Stable" if any(True for _ in self.members.committed_items()) else "Empty"

    def members_with(self, member: ShareMember) -> dict[str, ShareMember]:
        return dict(self.members.items()) | {member.member_id: member}

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.subscribed_topic_names for member in self.members.values())

    def validate_offset_delete(self) -> None:
        raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND)

    # --- replay

    def replay_own(
        self, key: CoordinatorKey, value: ShareGroupStatePartitionMetadataValue | None
    ) -> None:
        if value is None:
            self._partitions.pop(_SELF)
        else:
            self._partitions[_SELF] = _stored(value)

    def _target_of(self, value: ShareGroupTargetAssignmentMemberValue) -> Pieces[Assignment]:
        return partitions_by_topic(value.topic_partitions)


def _stored(value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    def topics(infos: Iterable[TopicPartitionsInfo]) -> dict[Uuid, InitialisedTopic]:
        return {
            info.topic_id: InitialisedTopic(info.topic_name, frozenset(info.partitions))
            for info in infos
        }

    return StatePartitions(
        topics(value.initializing_topics),
        topics(value.initialized_topics),
        {info.topic_id: info.topic_name for info in value.deleting_topics},
    )


def merged(
    known: Mapping[Uuid, InitialisedTopic], more: Mapping[Uuid, InitialisedTopic]
) -> dict[Uuid, InitialisedTopic]:
    """The partitions of both; the newer name counts."""
    result = dict(known)
    for topic_id, topic in more.items():
        before = known.get(topic_id)
        if before is None:
            result[topic_id] = topic
        else:
            result[topic_id] = InitialisedTopic(topic.name, topic.partitions | before.partitions)
    return result


def without(
    known: Mapping[Uuid, InitialisedTopic], gone: Mapping[Uuid, Iterable[int]]
) -> dict[Uuid, InitialisedTopic]:
    """The topics without some partitions; a topic without partitions goes too."""
    result = {}
    for topic_id, topic in known.items():
        if topic_id not in gone:
            result[topic_id] = topic
            continue
        partitions = topic.partitions.difference(gone[topic_id])
        if partitions:
            result[topic_id] = InitialisedTopic(topic.name, partitions)
    return result
