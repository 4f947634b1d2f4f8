"""A consumer group (KIP-848): the coordinator decides who reads what, and members follow.

Three epochs lead from a change to what members do. The *group epoch* is bumped when members,
subscriptions or topics change. The *assignment epoch* follows when a target assignment has been
computed for it. A *member epoch* follows when the member has given up what is no longer its own;
new partitions are added as their former owners release them:

    group epoch  >=  assignment epoch  >=  member epoch

The state follows from the epochs and is not stored:

| state | when |
|---|---|
| Empty | no members |
| Assigning | the group epoch is ahead of the assignment epoch |
| Reconciling | a member is not stable at the assignment epoch |
| Stable | all of them are |
| Dead | the group is gone |

A partition has one owner at a time: `owners` has, by topic and number, the epoch of the member that
has it or must give it up, and nobody gets a partition that stands there. All of it changes by
records alone (`replay_...`) and lives on the timeline. What follows from the members is computed
when it is needed: when the group changes, and never for an ordinary heartbeat.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.coordinators.group.classic.group import CONSUMER_PROTOCOL_TYPE
from kaa.coordinators.group.consumer.member import ConsumerMember, MemberState
from kaa.coordinators.group.modern.group import ModernGroup, partitions_by_topic
from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.timeline import TimelineDict
from kaa.limits import GROUP_TOPICS_PER_PIECE
from kaa.wire.errors import Errors
from kaa.wire.messages.offsets_consumer import ConsumerGroupRegularExpressionKey

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping

    from kaa.coordinators.group.assignors.table import Assignment
    from kaa.coordinators.timeline import Timeline
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.offsets_consumer import (
        ConsumerGroupTargetAssignmentMemberValue,
    )
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import CoordinatorKey

# From this version on OffsetCommit knows the errors of consumer groups.
_COMMIT_VERSION: Final = 9


class ConsumerGroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class Epochs(NamedTuple):
    """What a group has besides its members."""

    group_epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 1
    # 0: not known.
    assignment_timestamp_ms: int = 0
    # A version before 4.1 wrote a record that is to be removed.
    has_partition_metadata: bool = False


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched; `version` is where the metadata log stood then."""

    topics: frozenset[str] = frozenset()
    version: int = -1
    timestamp_ms: int = -1


class ConsumerGroup(ModernGroup[Epochs, ConsumerMember, "Assignment"]):
    """A consumer group in memory. Changed by its `replay_` methods alone; everything else asks or
    validates.
    """

    kind = "consumer"
    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        super().__init__(group_id, timeline, Epochs(), ConsumerMember)
        # Member ids by group instance id.
        self.static_members: TimelineDict[str, str] = TimelineDict(timeline)
        # By topic and partition, the epoch of the member that has it. A member may have thousands
        # of topics, and each is one change.
        self.owners: TimelineDict[Uuid, Mapping[int, int]] = TimelineDict(timeline)
        self.regexes: TimelineDict[str, ResolvedRegex] = TimelineDict(timeline)
        # What the member that was stored last subscribes to; most groups have no other.
        self._last_names: frozenset[str] = frozenset()

    # --- epochs and state

    @property
    def group_epoch(self) -> int:
        return self.epochs.group_epoch

    @property
    def assignment_epoch(self) -> int:
        return self.epochs.assignment_epoch

    @property
    def state(self) -> ConsumerGroupState:
        return _state(self.epochs, list(self.members.values()))

    @property
    def committed_state(self) -> ConsumerGroupState:
        members = [member for _, member in self.members.committed_items()]
        return _state(self.committed_epochs, members)

    @property
    def shown_state(self) -> str:
        """The state as readers see it."""
        return self.committed_state.value

    # --- members

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id) or {}

    def target_of(self, member: ConsumerMember) -> Assignment:
        """The target of a member, or of the static member that it takes the place of."""
        if member.instance_id is None:
            return self.target(member.member_id)
        previous = self.static_members.get(member.instance_id)
        return {} if previous is None else self.target(previous)

    def members_with(self, member: ConsumerMember) -> dict[str, ConsumerMember]:
        """The members as they are with this one, which may be new or take another's place."""
        found = dict(self.members.items())
        replaced = self.static_member(member.instance_id)
        if replaced is not None and replaced.member_id != member.member_id:
            del found[replaced.member_id]
        found[member.member_id] = member
        return found

    def is_waiting_for_release(self, member: ConsumerMember) -> bool:
        """Whether somebody else still has a partition that the member is to get."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            (numbers & (self.owners.get(topic_id) or {}).keys())
            - member.assigned.get(topic_id, {}).keys()
            for topic_id, numbers in self.target(member.member_id).items()
        )

    @property
    def classic_member_count(self) -> int:
        return sum(member.uses_classic_protocol for member in self.members.values())

    def supports_classic(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member of the classic protocol with these assignors may join."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        if self.is_empty:
            return bool(names)
        supported = Counter(
            protocol.name
            for member in self.members.values()
            for protocol in member.classic_protocols
        )
        everybody = self.classic_member_count
        return any(supported[name] == everybody for name in names)

    # --- subscriptions

    def regex_subscribers(self, regex: str) -> int:
        return sum(member.subscribed_topic_regex == regex for member in self.members.values())

    def shared_names(self, names: frozenset[str]) -> frozenset[str]:
        """The same names, as the very set that another member has if it is equal: so that a group
        whose members all read thousands of topics need not compare them topic by topic.
        """
        return self._last_names if names == self._last_names else names

    def subscribed_topics(self) -> frozenset[str]:
        """Every topic that the group reads; names of topics that do not exist too."""
        return subscribed_topics(self.members.values(), self._resolved(self.members.values()))

    def _resolved(self, members: Iterable[ConsumerMember]) -> list[ResolvedRegex]:
        names = {member.subscribed_topic_regex for member in members}
        return [resolved for regex, resolved in self.regexes.items() if regex in names]

    def subscribed_topics_of(self, members: Iterable[ConsumerMember]) -> frozenset[str]:
        """What the group would read with other members."""
        listed = list(members)
        return subscribed_topics(listed, self._resolved(listed))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What one member reads; an expression without a result yet matches nothing."""
        resolved = self.regexes.get(member.subscribed_topic_regex or "")
        if resolved is None:
            return member.subscribed_topic_names
        return member.subscribed_topic_names | resolved.topics

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    # --- offsets

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        member_epoch: int,
        *,
        api_version: int,
        is_transactional: bool = False,
    ) -> ConsumerMember | None:
        """The member, if its epoch is to be compared with that of each partition."""
        if member_epoch < 0 and self.is_empty:
            # An administrator, or a consumer that manages its partitions itself.
            return None
        is_nobody = member_epoch == -1 and not member_id and group_instance_id is None
        if is_transactional and is_nobody:
            return None
        member = self.member(member_id)
        if (
            not is_transactional
            and not member.uses_classic_protocol
            and api_version < _COMMIT_VERSION
        ):
            raise CoordinatorError(
                Errors.UNSUPPORTED_VERSION,
                "Members of the consumer protocol must commit with version 9 or later.",
            )
        if member_epoch == member.member_epoch:
            return None
        if member_epoch > member.member_epoch:
            raise CoordinatorError(_stale(member))
        return member

    def validate_offset_fetch(
        self, member_id: str | None, member_epoch: int, *, is_committed: bool
    ) -> None:
        if member_id is None and member_epoch < 0:
            return
        name = member_id or ""
        member = self.members.committed(name) if is_committed else self.members.get(name)
        if member is None:
            raise CoordinatorError(Errors.UNKNOWN_MEMBER_ID)
        if member_epoch != member.member_epoch:
            raise CoordinatorError(_stale(member))

    def validate_offset_delete(self) -> None:
        """Offsets of topics that nobody reads may always be deleted."""

    # --- replay

    def replay_member(self, member_id: str, value: Any) -> Pieces[None]:
        yield from super().replay_member(member_id, value)
        if value is not None:
            member = self.members[member_id]
            names = self._last_names = self.shared_names(member.subscribed_topic_names)
            self.members[member_id] = member._replace(subscribed_topic_names=names)

    def replay_own(self, key: CoordinatorKey, value: Any) -> None:
        if not isinstance(key, ConsumerGroupRegularExpressionKey):
            self.epochs = self.epochs._replace(has_partition_metadata=value is not None)
        elif value is None:
            self.regexes.pop(key.regular_expression)
        else:
            self.regexes[key.regular_expression] = ResolvedRegex(
                frozenset(value.topics), value.version, value.timestamp
            )

    def _target_of(self, value: ConsumerGroupTargetAssignmentMemberValue) -> Pieces[Assignment]:
        return partitions_by_topic(value.topic_partitions)

    def put(self, member: ConsumerMember) -> Pieces[None]:
        yield from super().put(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> Pieces[None]:
        known = self.members.get(member_id)
        yield from super().remove(member_id)
        if known is not None and known.instance_id is not None:
            self.static_members.pop(known.instance_id)

    def _own(self, known: ConsumerMember | None, member: ConsumerMember) -> Pieces[None]:
        """Partitions that a member had are free, and those it has now are not. Each topic is one
        change, and those that stay as they are cost none.
        """
        if known is not None and known.has_same_as(member):
            return
        had = {} if known is None else known.owned
        has = member.owned
        for count, topic_id in enumerate(had | has, 1):
            if count % GROUP_TOPICS_PER_PIECE == 0:
                yield
            owners = self.owners.get(topic_id) or {}
            left = owners
            if known is not None and topic_id in had:
                left = _released(owners, had[topic_id], known.member_epoch)
            if topic_id in has:
                left = self._taken(topic_id, left, has[topic_id], member)
            if not left:
                self.owners.pop(topic_id)
            elif left != owners:
                self.owners[topic_id] = left

    def _taken(
        self,
        topic_id: Uuid,
        owners: Mapping[int, int],
        numbers: Mapping[int, int],
        member: ConsumerMember,
    ) -> dict[int, int]:
        epoch = member.member_epoch
        for number in numbers.keys() & owners.keys():
            assert owners[number] < epoch, (
                f"group {self.group_id}: {topic_id}-{number} goes to {member.member_id} at "
                f"epoch {epoch}, but is still owned at epoch {owners[number]}"
            )
        return {**owners, **dict.fromkeys(numbers, epoch)}


def _released(owners: Mapping[int, int], numbers: Container[int], epoch: int) -> dict[int, int]:
    """Compaction may have removed what came between: somebody else has a partition then."""
    return {number: at for number, at in owners.items() if at != epoch or number not in numbers}


def _state(epochs: Epochs, members: list[ConsumerMember]) -> ConsumerGroupState:
    if not members:
        return ConsumerGroupState.EMPTY
    if epochs.group_epoch > epochs.assignment_epoch:
        return ConsumerGroupState.ASSIGNING
    if all(member.is_reconciled_to(epochs.assignment_epoch) for member in members):
        return ConsumerGroupState.STABLE
    return ConsumerGroupState.RECONCILING


def _stale(member: ConsumerMember) -> Errors:
    """A member of the classic protocol has a generation instead of an epoch."""
    return Errors.ILLEGAL_GENERATION if member.uses_classic_protocol else Errors.STALE_MEMBER_EPOCH


def validate_partition_commit(
    member: ConsumerMember, member_epoch: int, topic_id: Uuid, partition: int
) -> None:
    """A commit with an older member epoch counts for what was the member's own by then."""
    epoch = member.assignment_epoch(topic_id, partition)
    if epoch is None or member_epoch < epoch:
        raise CoordinatorError(_stale(member))


def _different_names(members: Iterable[ConsumerMember]) -> list[frozenset[str]]:
    """The subscriptions by name; equal ones may come twice, but most are one set."""
    return list(
        {id(names): names for names in (one.subscribed_topic_names for one in members)}.values()
    )


def subscribed_topics(
    members: Iterable[ConsumerMember], resolved: Iterable[ResolvedRegex]
) -> frozenset[str]:
    sets = [*_different_names(members), *(regex.topics for regex in resolved)]
    return sets[0] if len(sets) == 1 else frozenset[str]().union(*sets)


def is_homogeneous(members: Mapping[str, ConsumerMember], regexes: Iterable[ResolvedRegex]) -> bool:
    """Whether all members subscribe to the same, by names or by one regular expression."""
    by_regex = Counter(
        member.subscribed_topic_regex
        for member in members.values()
        if member.subscribed_topic_regex
    )
    names = _different_names(members.values())
    if not by_regex:
        return all(one == names[0] for one in names[1:])
    if next(iter(by_regex.values())) != len(members) or any(names):
        return False
    matched = Counter(topic for regex in regexes for topic in regex.topics)
    return all(count == 1 for count in matched.values())
