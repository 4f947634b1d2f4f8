"""Leaderships that move because a broker or a directory came or went.

A broker may hold ten thousand partitions, so that the records are made in pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.partition_change import Election, PartitionChange, assigned_directories
from kaa.limits import METADATA_ELECTIONS_PER_PIECE
from kaa.model.nodes import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaa.controller.image import PartitionImage, TopicImage
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord


def move_leaderships(
    state: ControllerState,
    broker_id: int,
    *,
    was_unclean: bool = False,
    also_eligible: bool = False,
) -> Pieces[list[MetadataRecord]]:
    """Takes a broker out of every ISR. After an unclean end it is not an eligible leader either."""

    def is_affected(partition: PartitionImage) -> bool:
        return broker_id in partition.isr or (
            (was_unclean or also_eligible) and broker_id in partition.eligible_leader_replicas
        )

    return (yield from _move(state, broker_id, is_affected, was_unclean=was_unclean))


def move_leaderships_of_directory(
    state: ControllerState, broker_id: int, directory: Uuid
) -> Pieces[list[MetadataRecord]]:
    """Takes a broker out of the ISR of every partition that it holds in a directory.

    Those whose ISR it is not in are looked at too, as Kafka does: one that nobody leads may find a
    leader.
    """

    def is_affected(partition: PartitionImage) -> bool:
        return assigned_directories(partition).get(broker_id) == directory

    return (yield from _move(state, broker_id, is_affected))


def take_leaderships(state: ControllerState, broker_id: int) -> Pieces[list[MetadataRecord]]:
    """Lets a broker that is back lead what nobody leads, where it may."""

    def take(topic: TopicImage, number: int) -> list[MetadataRecord]:
        change = PartitionChange(
            state,
            topic,
            number,
            is_alive=lambda replica: replica == broker_id or state.is_active(replica),
        )
        return _record(state, topic, change)

    return (yield from _collected(state.partitions.of(NO_LEADER, state.image), take))


def _move(
    state: ControllerState,
    broker_id: int,
    is_affected: Callable[[PartitionImage], bool],
    *,
    was_unclean: bool = False,
) -> Pieces[list[MetadataRecord]]:
    def move(topic: TopicImage, number: int) -> list[MetadataRecord]:
        if not is_affected(topic.partitions[number]):
            return []
        return move_leadership(state, broker_id, topic, number, was_unclean=was_unclean)

    return (yield from _collected(state.partitions.of(broker_id, state.image), move))


def _collected(
    partitions: Iterator[tuple[TopicImage, int]],
    records_of: Callable[[TopicImage, int], list[MetadataRecord]],
) -> Pieces[list[MetadataRecord]]:
    records: list[MetadataRecord] = []
    for count, (topic, number) in enumerate(partitions, 1):
        records += records_of(topic, number)
        if count % METADATA_ELECTIONS_PER_PIECE == 0:
            yield
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
