"""Offsets of share groups as administrators change them: only while a group has no members.

To alter an offset starts the state of a partition over, with the epoch of the group, which fences
a leader that still writes with an older one. To delete the offsets of a topic deletes its state; in
between the topic is noted as one that is being deleted, so that a deletion which failed half-way
can be asked for again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.share.group import InitialisedTopic, StatePartitions, merged
from kaa.coordinators.group.share.records import partitions_record
from kaa.coordinators.machine import CoordinatorResult
from kaa.limits import GROUP_TOPICS_PER_PIECE
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.share.groups import ShareGroups
    from kaa.coordinators.machine import Moment
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid


class Alteration(NamedTuple):
    """State that is to start over: the offsets of partitions by topic id."""

    state_epoch: int
    offsets: dict[Uuid, dict[int, int]]


class ShareOffsets:
    """Alters and deletes offsets of share groups, as far as the records of the group go. The caller
    has the share coordinator change the state itself (`Alteration`; between `begin_delete` and
    `finish_delete`).
    """

    def __init__(self, groups: ShareGroups) -> None:
        self._groups = groups

    def alter(
        self, group_id: str, wanted: Mapping[str, Mapping[int, int]], now: Moment
    ) -> Pieces[CoordinatorResult]:
        """The answer is an Alteration of what exists; the group is made if it is not there."""
        group = self._groups.find_or_new(group_id)
        group.validate_delete()
        topics = self._groups.topics
        begun: dict[Uuid, InitialisedTopic] = {}
        offsets: dict[Uuid, dict[int, int]] = {}
        for place, (name, numbers) in enumerate(wanted.items(), 1):
            if place % GROUP_TOPICS_PER_PIECE == 0:
                yield
            topic_id = topics.topic_id(name)
            if topic_id is None:
                continue
            count = topics.partition_count(topic_id)
            known = {number: offset for number, offset in numbers.items() if 0 <= number < count}
            if known:
                offsets[topic_id] = known
                begun[topic_id] = InitialisedTopic(name, frozenset(known))
        answer = Alteration(group.epochs.group_epoch, offsets)
        if not begun:
            return CoordinatorResult(response=answer)
        partitions = group.partitions._replace(
            initialising=merged(group.partitions.initialising, begun),
            deleting={
                key: name for key, name in group.partitions.deleting.items() if key not in begun
            },
        )
        self._groups.begin_initialising(group_id, begun, now)
        record = yield from partitions_record(group_id, partitions)
        return CoordinatorResult([record], answer)

    def begin_delete_group(self, group_id: str) -> Pieces[CoordinatorResult]:
        """The answer has the partitions that the group may have state of, by topic id. All of it is
        noted as being deleted: if that fails half-way, a member that comes later has it begun
        again, and who deletes the group again finds it.
        """
        group = self._groups.find(group_id)
        group.validate_delete()
        topics, known = self._groups.topics, group.partitions
        unfinished = {
            topic_id: InitialisedTopic(name, frozenset(range(topics.partition_count(topic_id))))
            for topic_id, name in known.deleting.items()
            if topics.name(topic_id) is not None
        }
        found = merged(merged(known.initialised, known.initialising), unfinished)
        deleting = {topic_id: topic.name for topic_id, topic in found.items()}
        record = yield from partitions_record(group_id, StatePartitions(deleting=deleting))
        partitions = {topic_id: topic.partitions for topic_id, topic in found.items()}
        return CoordinatorResult([record], partitions)

    def begin_delete(self, group_id: str, names: Iterable[str]) -> Pieces[CoordinatorResult]:
        """The answer has the partitions with state of the topics that have some, by topic id."""
        group = self._groups.find(group_id)
        group.validate_delete()
        topics, known = self._groups.topics, group.partitions
        initialised, deleting = dict(known.initialised), dict(known.deleting)
        found: dict[Uuid, frozenset[int]] = {}
        for name in names:
            topic_id = topics.topic_id(name)
            if topic_id is None:
                continue
            if topic_id in initialised:
                found[topic_id] = initialised.pop(topic_id).partitions
                deleting[topic_id] = name
            elif topic_id in deleting:
                # Asked for before, and not finished.
                found[topic_id] = frozenset(range(topics.partition_count(topic_id)))
        if not found:
            return CoordinatorResult(response=found)
        partitions = known._replace(initialised=initialised, deleting=deleting)
        record = yield from partitions_record(group_id, partitions)
        return CoordinatorResult([record], found)

    def finish_delete(self, group_id: str, topic_ids: Iterable[Uuid]) -> Pieces[CoordinatorResult]:
        """The state of topics is gone."""
        group, gone = self._groups.find(group_id), frozenset(topic_ids)
        known = group.partitions
        left = {key: name for key, name in known.deleting.items() if key not in gone}
        partitions = known._replace(deleting=left)
        record = yield from partitions_record(group_id, partitions)
        return CoordinatorResult([record], Errors.NONE)

    def initialised(self, group_id: str) -> dict[str, frozenset[int]]:
        """The partitions that have state, by the names of topics that are still there."""
        found = {}
        group = self._groups.find(group_id)
        for topic_id, topic in group.committed_partitions.initialised.items():
            name = self._groups.topics.name(topic_id)
            if name is not None:
                found[name] = topic.partitions
        return found
