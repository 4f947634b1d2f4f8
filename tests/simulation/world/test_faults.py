"""What a world does not do to its nodes, since no cluster could survive it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.world.scenario import Plan, Scenario
from tests.support.quiet import quiet_logs

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 30.0


@pytest.fixture
def world() -> Iterator[Scenario]:
    """Three nodes that serve."""
    scenario = Scenario(Plan(48, nodes=3))
    with quiet_logs():
        for node in scenario.nodes:
            node.boot()
        _until_all_serve(scenario)
        yield scenario
        scenario.kernel.end()


def _until_all_serve(world: Scenario) -> None:
    nodes = world.nodes
    world.kernel.run_until(
        lambda: all(node.is_ready for node in nodes), START_SECONDS, "nodes did not serve"
    )


def _lied(world: Scenario) -> list[str]:
    return [line.split()[-1] for line in world.kernel.lines if "lied about syncs" in line]


def test_no_copy_is_lost_while_another_node_has_a_full_disk(world: Scenario) -> None:
    """A node lost its copy while the disk of the second was full and that of the third lied. All
    three came back from an unclean end, a reassignment had left the partition to the first and the
    second meanwhile, and the first was elected as the last one that had led.
    """
    first, second, _ = world.nodes
    world.faults.start("lost fsync", first)
    world.faults.start("full disk", second)
    world.faults.heal()
    assert _lied(world) == ["unseen"]


def test_nobody_ends_before_a_lost_copy_is_known(world: Scenario) -> None:
    first, second, third = world.nodes
    world.faults.start("lost fsync", first)
    world.faults.heal()
    assert _lied(world) == ["vain"]
    for kind in ("kill", "power cut", "crash in the middle of a write", "disk error", "full disk"):
        world.faults.start(kind, second)
    world.faults.start("kill of all", third)
    world.kernel.run_for(0.1)
    assert second.is_ready
    assert third.is_ready
    _until_all_serve(world)
    assert [node.boots for node in world.nodes] == [2, 1, 1]
    assert list(world.faults.counts) == ["lost fsync"]
    world.faults.start("kill of all", third)
    assert not any(node.is_up for node in world.nodes)


def test_a_crash_that_is_on_its_way_does_not_meet_a_disk_that_lies(world: Scenario) -> None:
    node = world.nodes[0]
    world.faults.start("crash in the middle of a write", node)
    world.faults.start("lost fsync", node)
    world.faults.heal()
    assert not _lied(world)
