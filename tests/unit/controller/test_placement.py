from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaa.controller.placement import place
from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors
from tests.unit.controller.cluster import Cluster


def test_one_broker_gets_everything() -> None:
    assert list(place(Cluster(1).state, 3, 1)) == [[0], [0], [0]]


def test_leaders_are_spread_evenly() -> None:
    placed = list(place(Cluster(4).state, 40, 3))
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {10}
    assert set(Counter(each for replicas in placed for each in replicas).values()) == {30}


def test_replicas_are_spread_over_racks() -> None:
    racks: list[str | None] = ["a", "a", "b", "b", "c", "c"]
    for replicas in place(Cluster(6, racks=racks).state, 30, 3):
        assert {racks[each] for each in replicas} == {"a", "b", "c"}


def test_fenced_brokers_come_last_and_never_first() -> None:
    cluster = Cluster(3)
    cluster.fence(0)
    placed = list(place(cluster.state, 20, 2))
    assert all(0 not in replicas for replicas in placed)
    assert all(replicas[-1] == 0 for replicas in place(cluster.state, 20, 3))


@pytest.mark.parametrize(
    ("brokers", "fenced", "factor"), [(0, 0, 1), (2, 2, 1), (2, 0, 3), (2, 0, 0)]
)
def test_what_cannot_be_placed(brokers: int, fenced: int, factor: int) -> None:
    cluster = Cluster(brokers)
    cluster.fence(*range(fenced))
    with pytest.raises(ControllerError) as refused:
        list(place(cluster.state, 1, factor))
    assert refused.value.error is Errors.INVALID_REPLICATION_FACTOR


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    racks=st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=7),
    fenced=st.integers(0, 3),
    count=st.integers(1, 12),
    data=st.data(),
)
def test_any_placement_is_legal(
    racks: list[str | None], fenced: int, count: int, data: st.DataObject
) -> None:
    cluster = Cluster(len(racks), racks=racks)
    cluster.fence(*range(min(fenced, len(racks) - 1)))
    factor = data.draw(st.integers(1, len(racks)))
    for replicas in place(cluster.state, count, factor):
        assert len(set(replicas)) == factor == len(replicas)
        assert cluster.state.is_active(replicas[0])
