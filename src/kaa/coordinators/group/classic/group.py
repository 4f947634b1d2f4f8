"""A group of the classic protocol: its members, its generation, and the state it is in.

Clients choose the assignment themselves: the coordinator elects one member as the leader, hands it
what the others subscribed to, and passes on what it decided. A rebalance has two phases. In the
join phase every member sends JoinGroup and waits; in the sync phase every member sends SyncGroup,
the leader's with the assignment, and waits for it.

The legal transitions (`PREVIOUS_STATES` is the table):

| from | to | when |
|---|---|---|
| Empty | PreparingRebalance | a member joins |
| PreparingRebalance | CompletingRebalance | all members joined, or time is up |
| PreparingRebalance | Empty | nobody joined |
| CompletingRebalance | Stable | the leader's assignment is stored |
| CompletingRebalance | PreparingRebalance | members came or went meanwhile |
| Stable | PreparingRebalance | members came, went or changed |
| any | Dead | another broker coordinates the group |

What is stored is a generation with its assignment, when it is complete. Who is joining is not: if
the coordinator moves, members find the old generation, or join again.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Final

from kaa.coordinators.machine import CoordinatorError
from kaa.model.ordered import OrderedSet
from kaa.wire.errors import Errors
from kaa.wire.messages.embedded import ConsumerProtocolSubscription
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Collection

    from kaa.coordinators.machine import Waiter

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

# What a member can do, in the order it prefers: names of protocols and its metadata for each.
Protocols = tuple[tuple[str, bytes], ...]


class ClassicGroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREVIOUS_STATES: Final = {
    ClassicGroupState.EMPTY: {ClassicGroupState.PREPARING_REBALANCE},
    ClassicGroupState.PREPARING_REBALANCE: {
        ClassicGroupState.STABLE,
        ClassicGroupState.COMPLETING_REBALANCE,
        ClassicGroupState.EMPTY,
    },
    ClassicGroupState.COMPLETING_REBALANCE: {ClassicGroupState.PREPARING_REBALANCE},
    ClassicGroupState.STABLE: {ClassicGroupState.COMPLETING_REBALANCE},
    ClassicGroupState.DEAD: set(ClassicGroupState),
}


class ClassicMember:
    """One member. `waiting_join` and `waiting_sync` are its requests that have no answer yet."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "waiting_join",
        "waiting_sync",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        # Until its first JoinGroup is answered: it does not know its own id, and sends no
        # heartbeats.
        self.is_new = False
        self.waiting_join: Waiter | None = None
        self.waiting_sync: Waiter | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def needs_no_heartbeat(self) -> bool:
        """A member that waits for a rebalance cannot send one, unless it is new and may be gone."""
        return not self.is_new and (self.waiting_join is not None or self.waiting_sync is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support {protocol_name}")

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)


class ClassicGroup:
    """A group of the classic protocol in memory. `transition_to` is the only way to another state,
    and refuses one that the table does not have.
    """

    # There are tens of thousands of them.
    __slots__ = (
        "_supported",
        "generation_id",
        "group_id",
        "is_member_added",
        "leader_id",
        "members",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "waiting_joins",
    )
    kind: Final = "classic"

    def __init__(self, group_id: str, now_ms: int | None) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        # None if the record of the group does not say since when.
        self.state_timestamp_ms = now_ms
        self.generation_id = 0
        # None for a simple group: one without members, that only commits offsets.
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        # Member ids by group instance id.
        self.static_members: dict[str, str] = {}
        # Ids that were given out to clients which are to join again with them.
        self.pending_joins: set[str] = set()
        # Members of this generation that have not sent SyncGroup.
        self.pending_syncs: OrderedSet[str] = OrderedSet()
        # Topics of all members; None if they are not known.
        self.subscribed_topics: frozenset[str] | None = None
        # A member came during the initial rebalance, which may therefore wait longer.
        self.is_member_added = False
        self.waiting_joins = 0
        # How many members support each protocol.
        self._supported: dict[str, int] = {}

    # --- questions

    @property
    def shown_state(self) -> str:
        """The state as readers see it."""
        return self.state.value

    def is_in(self, *states: ClassicGroupState) -> bool:
        return self.state in states

    @property
    def can_rebalance(self) -> bool:
        return self.state in PREVIOUS_STATES[ClassicGroupState.PREPARING_REBALANCE]

    @property
    def have_all_joined(self) -> bool:
        return len(self.members) == self.waiting_joins and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        timeouts = (member.rebalance_timeout_ms for member in self.members.values())
        return max(timeouts, default=0)

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id is not None and self.leader_id == member_id

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols could be in the group."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type and protocols)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._supported.get(name, 0) == everybody for name, _ in protocols
        )

    def validate_member(self, member_id: str, group_instance_id: str | None) -> None:
        """CoordinatorError for a member that is unknown or was replaced."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                raise CoordinatorError(Errors.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise CoordinatorError(Errors.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise CoordinatorError(Errors.UNKNOWN_MEMBER_ID)

    def validate_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> None:
        if self.state is ClassicGroupState.DEAD:
            raise CoordinatorError(Errors.COORDINATOR_NOT_AVAILABLE)
        if generation_id < 0 and self.state is ClassicGroupState.EMPTY:
            # An administrator, or a consumer that manages its partitions itself.
            return
        if generation_id < 0 and not member_id and group_instance_id is None:
            raise CoordinatorError(Errors.UNKNOWN_MEMBER_ID)
        self.validate_member(member_id, group_instance_id)
        if generation_id != self.generation_id:
            raise CoordinatorError(Errors.ILLEGAL_GENERATION)
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            # The member knows the new generation, and may commit once it has its assignment.
            raise CoordinatorError(Errors.REBALANCE_IN_PROGRESS)

    def validate_offset_delete(self) -> None:
        if self.state is ClassicGroupState.DEAD:
            raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND)
        if self.state is not ClassicGroupState.EMPTY and not self.uses_consumer_protocol:
            raise CoordinatorError(Errors.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        if self.state is ClassicGroupState.DEAD:
            raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND)
        if self.state is not ClassicGroupState.EMPTY:
            raise CoordinatorError(Errors.NON_EMPTY_GROUP)

    # --- members

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        if member.waiting_join is not None:
            self.waiting_joins += 1
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            if member.waiting_join is not None:
                self.waiting_joins -= 1
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def replace_static_member(self, old_member_id: str, new_member_id: str) -> ClassicMember:
        """The same static member under a new id; it must not be waiting for anything."""
        member = self.members.pop(old_member_id)
        assert member.waiting_join is None
        assert member.waiting_sync is None
        assert member.group_instance_id is not None
        member.member_id = new_member_id
        member.is_new = False
        self.members[new_member_id] = member
        if self.is_leader(old_member_id):
            self.leader_id = new_member_id
        self.static_members[member.group_instance_id] = new_member_id
        return member

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count(member.protocols, -1)
        self._count(protocols, 1)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def _count(self, protocols: Protocols, change: int) -> None:
        """A member that supports these came, or left."""
        for name in {name for name, _ in protocols}:
            self._supported[name] = self._supported.get(name, 0) + change

    def wait_join(self, member: ClassicMember, waiter: Waiter) -> Waiter | None:
        """The member waits for the join phase; returns its earlier request, if that waits too."""
        before, member.waiting_join = member.waiting_join, waiter
        if before is None:
            self.waiting_joins += 1
        return before

    def take_waiting_join(self, member: ClassicMember) -> Waiter | None:
        """The request of a member that is about to be answered."""
        waiter, member.waiting_join = member.waiting_join, None
        if waiter is not None:
            self.waiting_joins -= 1
        return waiter

    def elect_joined_leader(self) -> bool:
        """Makes sure that the leader is one that joined; False if nobody did."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].waiting_join is not None:
            return True
        joined = (one for one in self.members.values() if one.waiting_join is not None)
        leader = next(joined, None)
        if leader is not None:
            self.leader_id = leader.member_id
        return leader is not None

    # --- generations

    def transition_to(self, state: ClassicGroupState, now_ms: int) -> None:
        assert self.state in PREVIOUS_STATES[state], (
            f"group {self.group_id}: {self.previous_state.value} -> {self.state.value} -> "
            f"{state.value}, generation {self.generation_id}, members: {len(self.members)}"
        )
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Ends the join phase with those who are in the group."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition_to(
            ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY,
            now_ms,
        )
        self.pending_syncs.clear()

    def select_protocol(self) -> str:
        """The one that most members prefer among those that all of them support."""
        everybody = len(self.members)
        candidates = {name for name, count in self._supported.items() if count == everybody}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """What the members of a consumer group subscribed to, as far as it can be read."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        try:
            # Most members of a group send the same, which is read once.
            sent = {member.metadata(self.protocol_name) for member in self.members.values()}
            for metadata in sent:
                topics.update(_subscription(metadata))
        except WireError:
            return None
        return frozenset(topics)


def _subscription(metadata: bytes) -> list[str]:
    """Every version begins with what version 0 has, after two bytes of version."""
    if len(metadata) < 2 or int.from_bytes(metadata[:2], "big", signed=True) < 0:
        raise WireError("a subscription without a version")
    subscription, _ = ConsumerProtocolSubscription.codec(0).decode_prefix(metadata[2:])
    topics: list[str] = subscription.topics
    return topics
