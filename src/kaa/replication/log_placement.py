"""Whether a replica that has no log here may get a new, empty one, and in which directory.

A log that is not found may never have been made, or it lies in a directory that is offline or was
replaced. An empty log in its place would be led, and everything that was acknowledged would be gone
without a word. The metadata says where the replica belongs (KIP-858):

- In a directory that is online: made there. With another one offline only if the assignment is the
  first one, or another replica has the data: else it may be a move from the one that is offline.
- In a directory that this broker does not know: made if another replica has the data and all
  directories are online; refused with one offline, which may be the one.
- In none: made. With a directory offline only if it is new, or another replica has the data.

A log that was there and that something else than the broker has removed is made again only if
another replica has the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.controller.directories import LOST, RESERVED

if TYPE_CHECKING:
    from collections.abc import Collection

    from kaa.controller.image import PartitionImage
    from kaa.wire.primitives import Uuid


class Placement(NamedTuple):
    """Where a new log goes: the directory, None for the least loaded one."""

    directory: Uuid | None


def assigned_directory(image: PartitionImage, node_id: int) -> Uuid | None:
    """The directory that the metadata has for the replica on this broker; None if it has none.

    LOST is one that no broker has.
    """
    if len(image.directories) != len(image.replicas):
        return None
    directory = image.directories[image.replicas.index(node_id)]
    return None if directory in RESERVED and directory != LOST else directory


def has_other_copy(image: PartitionImage, node_id: int) -> bool:
    """Whether the data is on another broker that leads it or is in sync."""
    if image.leader not in {node_id, -1}:
        return True
    return any(replica != node_id for replica in image.isr)


def is_swapped_in(
    image: PartitionImage, node_id: int, future_directory: Uuid | None, *, has_offline: bool
) -> bool:
    """Whether a future log is the log of a replica that has no other: a swap had begun when the
    broker was killed (`kaa.log.futures`), and it began when the metadata had the target.

    With a directory offline the source may be there, with more than the future log has.
    """
    assigned = assigned_directory(image, node_id)
    if has_offline:
        return assigned == future_directory and has_other_copy(image, node_id)
    return assigned in {None, future_directory}


def place_log(
    image: PartitionImage,
    node_id: int,
    online: Collection[Uuid | None],
    *,
    has_offline: bool,
    is_new: bool,
    is_lost: bool = False,
) -> Placement | None:
    """Where to make a log that is not here; None if there must be none."""
    assigned = assigned_directory(image, node_id)
    has_other = has_other_copy(image, node_id)
    if is_lost and not has_other:
        return None
    if assigned is not None and assigned not in online:
        return None if has_offline or not has_other else Placement(None)
    is_safe = is_new if assigned is None else image.partition_epoch == 0
    if has_offline and not is_safe and not has_other:
        return None
    return Placement(assigned)
