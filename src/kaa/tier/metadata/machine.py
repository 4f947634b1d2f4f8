"""What this node knows of the metadata topic: which partitions it reads, how far, and what is true.

The metadata of a user partition lies in one partition of the topic (`records.metadata_partition`).
A node reads the metadata partitions of the user partitions it leads or follows, from their first
record or from a snapshot, and keeps everything in them: a user partition that comes later to the
same metadata partition finds its history there. Each metadata partition has

| Field | Meaning |
|---|---|
| `position` | the offset of the next record to apply |
| `target` | where the partition ended when this node began to read it; None while that is unknown |
| `broken` | why it cannot be trusted, if it cannot |

It is *ready* when its position has reached its target. Every question is gated: not assigned, not
ready and broken are errors of their own, and none of them is ever answered as "no such segment",
because then data would be copied again, or deleted, or reported as lost.

A record that cannot be read makes its partition broken for good; it is never skipped. Only an
operator can say what it meant. If the topic was trimmed beyond the position, reading goes on at its
new start, as Kafka's does: retention of the topic may be set, and then it must be longer than that
of every tiered topic. An update whose announcement was trimmed so is dropped.

The machine knows no client and no file. `topic` reads and writes the topic, `snapshot` the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.tier.metadata.cache import RemoteLogCache, UnknownSegmentError
from kaa.tier.metadata.model import (
    PartitionDeleteState,
    PartitionDeletion,
    SegmentMetadata,
    SegmentState,
    deletion_can_follow,
)
from kaa.tier.metadata.records import decode_event, metadata_partition
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.tier.metadata.model import TopicIdPartition
    from kaa.tier.metadata.records import RemoteLogEvent
    from kaa.wire.primitives import Uuid


class RemoteMetadataError(Exception):
    """The metadata of a partition cannot be asked now."""


class NotAssignedError(RemoteMetadataError):
    """This node neither leads nor follows the partition."""


class NotReadyError(RemoteMetadataError):
    """The topic has not been read to its end yet; the same question may be asked again."""


class BrokenMetadataError(RemoteMetadataError):
    """A record of the topic could not be read; an operator must look at it."""


class UserKey(NamedTuple):
    """A user partition by what never changes."""

    topic_id: Uuid
    partition: int


class UserPartition:
    """What is known of the remote log of one user partition."""

    __slots__ = ("cache", "deletion", "partition")

    def __init__(self, partition: TopicIdPartition) -> None:
        self.partition = partition
        self.cache = RemoteLogCache()
        self.deletion: PartitionDeleteState | None = None


class MetadataPartition:
    """One partition of the metadata topic: how far it is read, and the user partitions in it."""

    __slots__ = ("broken", "position", "target", "users")

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self.target: int | None = None
        self.broken = ""
        self.users: dict[UserKey, UserPartition] = {}

    @property
    def is_ready(self) -> bool:
        return not self.broken and self.target is not None and self.position >= self.target

    def apply(self, event: RemoteLogEvent) -> None:
        key = UserKey(event.partition.topic_id, event.partition.partition)
        user = self.users.get(key)
        if user is None:
            user = self.users[key] = UserPartition(event.partition)
        if isinstance(event, PartitionDeletion):
            if deletion_can_follow(user.deletion, event.state):
                user.deletion = event.state
            if user.deletion == PartitionDeleteState.DELETE_PARTITION_FINISHED:
                # A topic that left the tier may come back to it, and starts over.
                del self.users[key]
        elif not isinstance(event, SegmentMetadata):
            try:
                user.cache.update(event)
            except UnknownSegmentError:
                return  # Its announcement was trimmed, and so it is a deletion at the latest.
        elif event.state == SegmentState.COPY_SEGMENT_STARTED:
            user.cache.announce(event)
        else:
            raise WireError(f"a segment is announced as {event.state.name}")


class Assignment(NamedTuple):
    """Metadata partitions that are to be read from now on, and those that are not any more."""

    added: tuple[int, ...]
    removed: tuple[int, ...]


class MetadataMachine:
    """Gates and answers questions about remote segments. `partitions` is the count that the topic
    has, not a setting. A question that cannot be trusted raises.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        # The user partitions of this node, with the metadata partition of each.
        self._assigned: dict[UserKey, int] = {}
        self._states: dict[int, MetadataPartition] = {}

    # --- assignment

    def assign(self, partitions: Iterable[TopicIdPartition]) -> Assignment:
        """These user partitions are led or followed here too."""
        added = []
        for partition in partitions:
            number = metadata_partition(partition, self.partitions)
            self._assigned[UserKey(partition.topic_id, partition.partition)] = number
            if number not in self._states:
                self._states[number] = MetadataPartition()
                added.append(number)
        return Assignment(tuple(added), ())

    def unassign(self, partitions: Iterable[TopicIdPartition]) -> Assignment:
        """These are not any more; what nobody needs is forgotten."""
        left = {
            self._assigned.pop(UserKey(one.topic_id, one.partition), None) for one in partitions
        }
        removed = sorted(
            {number for number in left if number is not None} - set(self._assigned.values())
        )
        for number in removed:
            del self._states[number]
        return Assignment((), tuple(removed))

    def restore(self, number: int, state: MetadataPartition) -> bool:
        """Takes a metadata partition from a snapshot if it is wanted and nothing was read yet."""
        current = self._states.get(number)
        if current is None or current.position > 0:
            return False
        state.target = current.target
        self._states[number] = state
        return True

    # --- what was read

    def reading(self) -> Iterator[tuple[int, MetadataPartition]]:
        """The metadata partitions of this node that can be read on."""
        return ((number, state) for number, state in self._states.items() if not state.broken)

    def set_target(self, number: int, end_offset: int) -> None:
        """Where the partition ends now; the first answer after assignment counts."""
        state = self._states.get(number)
        if state is not None and state.target is None:
            state.target = end_offset

    def trimmed(self, number: int, start_offset: int) -> bool:
        """The partition begins at `start_offset` now; True if records were missed by that."""
        state = self._states.get(number)
        if state is None or state.position >= start_offset:
            return False
        state.position = start_offset
        return True

    def apply(self, number: int, offset: int, value: bytes | memoryview | None) -> str:
        """Applies a record; returns why the partition is broken now, if it is."""
        state = self._states.get(number)
        # A partition that was given up and taken again may meet what was on its way.
        if state is None or offset < state.position or state.broken:
            return ""
        try:
            state.apply(decode_event(b"" if value is None else value))
        except WireError as error:
            state.broken = (
                f"record {offset} of partition {number} of the remote log metadata cannot be read "
                f"({error}); nothing is copied, deleted or read remotely for its topics until this "
                "node runs a version that can"
            )
            return state.broken
        state.position = offset + 1
        return ""

    def is_applied(self, number: int, offset: int) -> bool:
        state = self._states.get(number)
        return state is not None and state.position > offset

    # --- questions

    def is_ready(self, partition: TopicIdPartition) -> bool:
        number = self._assigned.get(UserKey(partition.topic_id, partition.partition))
        return number is not None and self._states[number].is_ready

    def user(self, partition: TopicIdPartition) -> UserPartition:
        """What is known of a user partition; raises RemoteMetadataError while that is not all."""
        key = UserKey(partition.topic_id, partition.partition)
        number = self._assigned.get(key)
        if number is None:
            raise NotAssignedError(f"{partition.topic}-{partition.partition} is not of this node")
        state = self._states[number]
        if state.broken:
            raise BrokenMetadataError(state.broken)
        if not state.is_ready:
            target = "its end, which is not known yet" if state.target is None else state.target
            raise NotReadyError(
                f"partition {number} of the remote log metadata is read up to {state.position}, "
                f"not up to {target}"
            )
        found = state.users.get(key)
        if found is None:
            found = state.users[key] = UserPartition(partition)
        return found
