from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kaa.cli.cluster.reassign_plan import Placed, PlanError, Planner
from kaa.model.topics import TopicPartition


def partitions(*replicas: tuple[int, ...], weight: int = 1) -> dict[TopicPartition, Placed]:
    return {TopicPartition("t", number): Placed(one, weight) for number, one in enumerate(replicas)}


def brokers(count: int, racks: int = 1) -> dict[int, str | None]:
    return {number: f"r{number % racks}" for number in range(1, count + 1)}


def test_a_drained_broker_has_nothing_and_others_share_it() -> None:
    placed = partitions((1, 2), (2, 1), (1, 3), (3, 1), (2, 3))
    planner = Planner(placed, brokers(4))
    planner.drain(1)
    changes = planner.changes
    assert TopicPartition("t", 4) not in changes
    assert all(1 not in replicas for replicas in changes.values())
    # The order stays, so that the successor of a leader leads.
    assert [changes[TopicPartition("t", number)][1] for number in (0, 2)] == [2, 3]
    assert Counter(one for each in changes.values() for one in each)[4] >= 3


def test_draining_needs_room() -> None:
    planner = Planner(partitions((1, 2, 3)), brokers(3))
    with pytest.raises(PlanError, match="no other broker"):
        planner.drain(3)


def test_replicas_go_to_racks_that_have_none() -> None:
    planner = Planner(partitions((1, 2)), {1: "a", 2: "b", 3: "a", 4: "b", 5: "c"})
    planner.set_factor(list(partitions((1, 2))), 3)
    assert planner.changes == {TopicPartition("t", 0): [1, 2, 5]}


def test_the_factor_falls_without_the_leader() -> None:
    planner = Planner(partitions((1, 2, 3), (1, 2)), brokers(3))
    planner.set_factor([TopicPartition("t", 0)], 1)
    assert planner.changes == {TopicPartition("t", 0): [1]}


def test_new_brokers_get_their_share() -> None:
    placed = partitions(*((1, 2), (2, 1)) * 6)
    planner = Planner(placed, brokers(4))
    planner.balance(placed)
    after = {name: planner.changes.get(name, list(one.replicas)) for name, one in placed.items()}
    counts = Counter(one for each in after.values() for one in each)
    assert set(counts.values()) == {6}
    leaders = Counter(each[0] for each in after.values())
    assert max(leaders.values()) - min(leaders.values()) <= 1
    # No more than the share of the new ones has moved.
    moved = sum(len(set(after[name]) - set(one.replicas)) for name, one in placed.items())
    assert moved == 12


def test_what_is_balanced_stays() -> None:
    placed = partitions((1, 2), (2, 3), (3, 1))
    planner = Planner(placed, brokers(3))
    planner.balance(placed)
    assert planner.changes == {}


def test_brokers_that_are_not_meant_are_left() -> None:
    placed = partitions((1, 2), (2, 3))
    planner = Planner(placed, {1: None, 3: None})
    planner.balance(placed)
    assert all(set(replicas) == {1, 3} for replicas in planner.changes.values())


@pytest.mark.parametrize("seed", range(30))
def test_balancing_ends_and_never_makes_it_worse(seed: int) -> None:
    random = Random(seed)
    racks = brokers(random.randint(2, 8), random.randint(1, 3))
    placed = {
        TopicPartition("t", number): Placed(
            tuple(random.sample(sorted(racks), random.randint(1, min(3, len(racks))))),
            random.randrange(1000),
        )
        for number in range(60)
    }
    planner = Planner(placed, racks)
    planner.balance(placed)
    after = {name: planner.changes.get(name, list(one.replicas)) for name, one in placed.items()}

    def spread(assignment: dict[TopicPartition, list[int]]) -> int:
        loads = dict.fromkeys(racks, 0)
        for name, replicas in assignment.items():
            for broker in replicas:
                loads[broker] += placed[name].weight
        return max(loads.values()) - min(loads.values())

    assert spread(after) <= spread({name: list(one.replicas) for name, one in placed.items()})
    for name, replicas in after.items():
        before = placed[name].replicas
        assert len(set(replicas)) == len(replicas) == len(before)
        assert len({racks[one] for one in replicas}) >= len({racks[one] for one in before})
