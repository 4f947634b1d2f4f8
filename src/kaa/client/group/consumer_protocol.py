"""What members of a classic group tell each other: the bytes inside JoinGroup and SyncGroup.

Both begin with a version of two bytes. A subscription has topics, since version 1 the partitions
that the member owns, since 2 the generation it owned them in, since 3 its rack; an assignment has
partitions. Both may carry bytes that only their assignor understands. A reader takes a newer
version as the newest one that it knows, since fields are only ever added at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.model.topics import TopicPartition
from kaa.wire.messages.embedded import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1
_VERSION: Final = 3
_VERSION_BYTES: Final = 2


class Subscription(NamedTuple):
    """What a member wants, and what it has."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


class Assignment(NamedTuple):
    """What a member was given."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def encode_subscription(given: Subscription) -> bytes:
    """The bytes that a member sends with JoinGroup."""
    message = ConsumerProtocolSubscription(
        topics=sorted(given.topics),
        user_data=given.user_data,
        owned_partitions=[
            SubscriptionTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(given.owned).items()
        ],
        generation_id=given.generation_id,
        rack_id=given.rack_id,
    )
    return _VERSION.to_bytes(_VERSION_BYTES, "big") + message.encode(_VERSION)


def decode_subscription(data: bytes) -> Subscription:
    """Raises WireError if the bytes are not a subscription."""
    message, _ = ConsumerProtocolSubscription.codec(_version(data)).decode_prefix(
        data[_VERSION_BYTES:]
    )
    return Subscription(
        tuple(message.topics),
        None if message.user_data is None else bytes(message.user_data),
        tuple(
            TopicPartition(topic.topic, partition)
            for topic in message.owned_partitions
            for partition in topic.partitions
        ),
        message.generation_id,
        message.rack_id or None,
    )


def encode_assignment(given: Assignment) -> bytes:
    """The bytes that the leader sends to a member with SyncGroup."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignmentTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(given.partitions).items()
        ],
        user_data=given.user_data,
    )
    return _VERSION.to_bytes(_VERSION_BYTES, "big") + message.encode(_VERSION)


def decode_assignment(data: bytes) -> Assignment:
    """No bytes at all are an empty assignment, as a broker sends it; raises WireError."""
    if not data:
        return Assignment()
    message, _ = ConsumerProtocolAssignment.codec(_version(data)).decode_prefix(
        data[_VERSION_BYTES:]
    )
    return Assignment(
        tuple(
            TopicPartition(topic.topic, partition)
            for topic in message.assigned_partitions
            for partition in topic.partitions
        ),
        None if message.user_data is None else bytes(message.user_data),
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Numbers of partitions by topic, in the order in which they come."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def _version(data: bytes) -> int:
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0 or len(data) < _VERSION_BYTES:
        raise WireError(f"{version} is not a version of the consumer protocol")
    return min(version, _VERSION)
