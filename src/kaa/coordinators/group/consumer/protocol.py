"""The consumer protocol inside the classic one: what members subscribe to and what they are given.

Both are messages after two bytes of version. A version that is not known yet is read as the newest
one that is: new fields come at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.java_order import integer_hash, map_order, uuid_hash
from kaa.wire.messages.embedded import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.topics import GroupTopics
    from kaa.wire.primitives import Uuid

_VERSION_MAX: Final = 3


def protocol_version(data: bytes) -> int:
    """WireError if there is none."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        raise WireError("a message of the consumer protocol without a version")
    return min(version, _VERSION_MAX)


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    codec = ConsumerProtocolSubscription.codec(protocol_version(metadata))
    subscription: ConsumerProtocolSubscription = codec.decode_prefix(metadata[2:])[0]
    return subscription


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    codec = ConsumerProtocolAssignment.codec(protocol_version(data))
    assignment: ConsumerProtocolAssignment = codec.decode_prefix(data[2:])[0]
    return assignment


def write_assignment(
    assignment: Mapping[Uuid, Iterable[int]], topics: GroupTopics, metadata: bytes
) -> bytes:
    """An assignment for a member whose metadata is this; topics that are gone are left out."""
    version = protocol_version(metadata)
    found = []
    for topic_id in map_order(assignment, uuid_hash):
        name = topics.name(topic_id)
        if name is not None:
            numbers = map_order(assignment[topic_id], integer_hash)
            found.append(AssignmentTopicPartition(topic=name, partitions=numbers))
    message = ConsumerProtocolAssignment(assigned_partitions=found)
    return version.to_bytes(2, "big") + message.encode(version)
