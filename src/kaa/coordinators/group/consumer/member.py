"""A member of a consumer group (KIP-848), as a value that is replaced when something changes.

The coordinator tells a member by its epoch how far it is. The target assignment of the group has an
epoch too; a member that has reached it owns what the target says, or waits for others to release
some of it:

| state | meaning | leaves it when |
|---|---|---|
| stable | has all that its epoch says | the target is newer |
| unrevoked | keeps its old epoch, and is to give partitions up | it no longer reports them |
| unreleased | is at the new epoch; somebody else still has partitions | they are released |

Each partition that a member owns carries the epoch at which it was assigned: a commit with an older
member epoch counts as long as it is not older than that (KIP-1251).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.modern.group import LEAVE_EPOCH
from kaa.model.pieces import mapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.model.pieces import Pieces
    from kaa.wire.messages.offsets_consumer import (
        ClassicMemberMetadata,
        ClassicProtocol,
        ConsumerGroupCurrentMemberAssignmentValue,
        ConsumerGroupMemberMetadataValue,
        TopicPartitions,
    )
    from kaa.wire.primitives import Uuid

# Partitions by topic id, with the epoch at which each was assigned.
Owned = dict["Uuid", dict[int, int]]


class MemberState(IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    # Of a record that a newer version wrote.
    UNKNOWN = 127


class ConsumerMember(NamedTuple):
    """A member of a consumer group. Immutable: methods that change something return a copy."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = ""
    server_assignor: str | None = None
    # Neither is ever changed in place.
    assigned: Owned = {}  # noqa: RUF012
    pending_revocation: Owned = {}  # noqa: RUF012
    # Set for a member that speaks the classic protocol.
    classic: ClassicMemberMetadata | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    @property
    def classic_protocols(self) -> list[ClassicProtocol]:
        return [] if self.classic is None else self.classic.supported_protocols

    @property
    def owned(self) -> Owned:
        """What it has, also what it is to give up."""
        assigned, pending = self.assigned, self.pending_revocation
        return assigned | {
            topic_id: assigned.get(topic_id, {}) | numbers for topic_id, numbers in pending.items()
        }

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def has_same_as(self, other: ConsumerMember) -> bool:
        """Whether it is the same member with the very same partitions, at the same epoch."""
        return (
            self.member_epoch == other.member_epoch
            and self.assigned is other.assigned
            and self.pending_revocation is other.pending_revocation
        )

    def at_epoch(self, member_epoch: int, **changes: object) -> ConsumerMember:
        """The member at an epoch, which may be the one it has."""
        return self._replace(
            member_epoch=member_epoch,
            previous_member_epoch=self.member_epoch,
            **changes,  # type: ignore[arg-type]
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(
        self, value: ConsumerGroupCurrentMemberAssignmentValue
    ) -> Pieces[ConsumerMember]:
        known = value.state in set(MemberState)
        return self._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=(yield from _owned(value.assigned_partitions, value.member_epoch)),
            pending_revocation=(
                yield from _owned(value.partitions_pending_revocation, value.member_epoch)
            ),
        )

    def without_assignment(self) -> ConsumerMember:
        return self._replace(
            member_epoch=LEAVE_EPOCH,
            previous_member_epoch=LEAVE_EPOCH,
            assigned={},
            pending_revocation={},
        )

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """Since which epoch the member has a partition, also one it is to give up."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch


def _owned(topics: Iterable[TopicPartitions], member_epoch: int) -> Pieces[Owned]:
    """Records of older versions have no epochs: the partitions count from the member's own."""
    default = max(member_epoch, 0)

    def of_topic(topic: TopicPartitions) -> tuple[Uuid, dict[int, int]]:
        numbers, epochs = topic.partitions, topic.assignment_epochs
        if epochs is None or len(epochs) != len(numbers):
            return topic.topic_id, dict.fromkeys(numbers, default)
        return topic.topic_id, dict(zip(numbers, epochs, strict=True))

    return dict((yield from mapped(of_topic, topics)))


def is_subset(reported: Mapping[Uuid, Iterable[int]] | None, owned: Owned) -> bool:
    """Whether a member reports nothing but what it owns; False if it reports nothing at all."""
    if reported is None:
        return False
    return all(
        topic_id in owned and all(number in owned[topic_id] for number in numbers)
        for topic_id, numbers in reported.items()
    )
