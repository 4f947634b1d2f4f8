from __future__ import annotations

import pytest

from kaa.controller.directories import LOST, MIGRATING, UNASSIGNED
from kaa.controller.image import PartitionImage
from kaa.replication.log_placement import Placement, may_be_only_copy, place_log
from kaa.wire.primitives import Uuid
from tests.support.ids import uuid

HERE, OTHER = 1, 2
ONLINE, GONE = uuid(1100), uuid(1200)


def image(assigned: Uuid, *, leader: int, isr: tuple[int, ...]) -> PartitionImage:
    return PartitionImage(
        replicas=(HERE, OTHER),
        isr=isr,
        leader=leader,
        leader_epoch=3,
        partition_epoch=4,
        directories=(assigned, uuid(1300)),
    )


def place(
    assigned: Uuid,
    *,
    has_offline: bool,
    leader: int = HERE,
    isr: tuple[int, ...] = (HERE,),
    is_new: bool = False,
    epoch: int = 4,
    is_lost: bool = False,
) -> Placement | None:
    return place_log(
        image(assigned, leader=leader, isr=isr)._replace(partition_epoch=epoch),
        HERE,
        [ONLINE],
        has_offline=has_offline,
        is_new=is_new,
        is_lost=is_lost,
    )


def test_log_is_made_in_the_directory_it_is_assigned_to() -> None:
    assert place(ONLINE, has_offline=False) == Placement(ONLINE)
    assert place(ONLINE, has_offline=True, leader=OTHER, isr=(OTHER,)) == Placement(ONLINE)
    # The controller placed it there when it was made.
    assert place(ONLINE, has_offline=True, epoch=0) == Placement(ONLINE)


def test_log_that_may_be_on_its_way_from_an_offline_directory_is_not_made_empty() -> None:
    assert place(ONLINE, has_offline=True) is None


def test_log_that_was_removed_is_filled_from_another_replica_or_not_made() -> None:
    assert place(ONLINE, has_offline=False, is_lost=True) is None
    assert place(UNASSIGNED, has_offline=False, is_lost=True) is None
    filled = place(ONLINE, has_offline=False, leader=OTHER, isr=(OTHER,), is_lost=True)
    assert filled == Placement(ONLINE)


@pytest.mark.parametrize("assigned", [GONE, LOST])
def test_log_of_an_unknown_directory(assigned: Uuid) -> None:
    assert place(assigned, has_offline=True) is None
    assert place(assigned, has_offline=True, leader=OTHER, isr=(OTHER,)) is None
    assert place(assigned, has_offline=False) is None
    assert place(assigned, has_offline=False, leader=-1) is None
    assert place(assigned, has_offline=False, leader=OTHER, isr=(OTHER,)) == Placement(None)
    assert place(assigned, has_offline=False, isr=(HERE, OTHER)) == Placement(None)


@pytest.mark.parametrize("assigned", [UNASSIGNED, MIGRATING])
def test_log_without_an_assignment(assigned: Uuid) -> None:
    assert place(assigned, has_offline=False) == Placement(None)
    assert place(assigned, has_offline=True) is None
    assert place(assigned, has_offline=True, is_new=True) == Placement(None)
    assert place(assigned, has_offline=True, leader=OTHER, isr=(OTHER,)) == Placement(None)


def test_only_copy_is_one_that_nobody_else_has_and_that_may_have_been_written_to() -> None:
    alone = image(ONLINE, leader=HERE, isr=(HERE,))
    assert may_be_only_copy(alone, HERE)
    assert may_be_only_copy(alone._replace(leader=-1), HERE)
    assert not may_be_only_copy(alone._replace(leader=-1, partition_epoch=0), HERE)
    assert not may_be_only_copy(alone._replace(isr=(HERE, OTHER)), HERE)
