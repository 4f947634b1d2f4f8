"""Leaderships that move because a broker or a directory came or went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.image import NO_LEADER
from kaa.controller.partition_change import Election, PartitionChange, assigned_directories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaa.controller.image import PartitionImage, TopicImage
    from kaa.controller.state import ControllerState
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord


def move_leaderships(
    state: ControllerState,
    broker_id: int,
    *,
    was_unclean: bool = False,
    also_eligible: bool = False,
) -> list[MetadataRecord]:
    """Takes a broker out of every ISR. After an unclean end it is not an eligible leader either."""

    def is_affected(partition: PartitionImage) -> bool:
        return broker_id in partition.isr or (
            (was_unclean or also_eligible) and broker_id in partition.eligible_leader_replicas
        )

    return _move(state, broker_id, is_affected, was_unclean=was_unclean)


def move_leaderships_of_directory(
    state: ControllerState, broker_id: int, directory: Uuid
) -> list[MetadataRecord]:
    """Takes a broker out of the ISR of every partition that it holds in a directory."""

    def is_affected(partition: PartitionImage) -> bool:
        return assigned_directories(partition).get(broker_id) == directory

    return _move(state, broker_id, is_affected)


def take_leaderships(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """Lets a broker that is back lead what nobody leads, where it may."""
    records: list[MetadataRecord] = []
    for topic, number in _partitions(state, lambda partition: partition.leader == NO_LEADER):
        change = PartitionChange(
            state,
            topic,
            number,
            is_alive=lambda replica: replica == broker_id or state.is_active(replica),
        )
        records += _record(state, topic, change)
    return records


def _move(
    state: ControllerState,
    broker_id: int,
    is_affected: Callable[[PartitionImage], bool],
    *,
    was_unclean: bool = False,
) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    for topic, number in _partitions(state, is_affected):
        records += move_leadership(state, broker_id, topic, number, was_unclean=was_unclean)
    return records


def move_leadership(
    state: ControllerState,
    broker_id: int,
    topic: TopicImage,
    number: int,
    *,
    was_unclean: bool = False,
) -> list[MetadataRecord]:
    """Takes a broker out of the ISR of one partition."""
    change = PartitionChange(
        state,
        topic,
        number,
        is_alive=lambda replica: replica != broker_id and state.is_active(replica),
    )
    change.isr = [replica for replica in change.isr if replica != broker_id]
    if was_unclean:
        change.unclean_shutdown_broker = broker_id
    return _record(state, topic, change)


def _record(
    state: ControllerState, topic: TopicImage, change: PartitionChange
) -> list[MetadataRecord]:
    if state.is_unclean_election_enabled(topic.name):
        change.election = Election.UNCLEAN
    record = change.record()
    return [] if record is None else [record]


def _partitions(
    state: ControllerState, is_affected: Callable[[PartitionImage], bool]
) -> Iterator[tuple[TopicImage, int]]:
    for topic in state.image.topics.values():
        for number, partition in topic.partitions.items():
            if is_affected(partition):
                yield topic, number
