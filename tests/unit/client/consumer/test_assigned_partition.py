from __future__ import annotations

from kaa.client.consumer.assigned_partition import AssignedPartition
from kaa.client.consumer.records import ConsumerRecord


def test_positions() -> None:
    state = AssignedPartition(wants_committed=True)
    state.move(7)
    assert (state.position, state.fetch_offset) == (7, 7)
    state.forget_position()
    assert state.position is None


def test_what_a_loop_holds_is_not_reached() -> None:
    state = AssignedPartition(wants_committed=False)
    state.move(9)
    state.held.extend(ConsumerRecord("t", 0, offset, 0, None, None) for offset in (5, 8))
    assert state.reached == 5
    state.held.popleft()
    assert state.reached == 8
    # A reset of the position is about what is fetched next.
    state.move(20)
    assert state.reached == 8
    state.seek(3)
    assert (state.reached, state.position, list(state.held)) == (3, 3, [])


def test_a_replica_counts_while_it_is_known_and_the_time_is_not_over() -> None:
    state = AssignedPartition(wants_committed=False)
    assert state.replica(0.0, {1, 2}) == -1
    assert not state.leave_replica()
    state.go_to_replica(2, until=10.0)
    assert state.replica(9.9, {1, 2}) == 2
    assert state.replica(10.0, {1, 2}) == -1
    assert state.replica(9.9, {1}) == -1
    assert state.leave_replica()
    assert state.replica(9.9, {1, 2}) == -1
