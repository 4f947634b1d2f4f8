from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kaa.coordinators.timers import Timers


def test_events_come_in_the_order_of_their_deadlines() -> None:
    timers: Timers[str] = Timers()
    timers.schedule("late", 30, "third")
    timers.schedule("early", 10, "first")
    timers.schedule("middle", 20, "second")
    assert timers.next_deadline_ms == 10
    assert [timers.take_due(30) for _ in range(4)] == ["first", "second", "third", None]


def test_a_deadline_can_be_put_off_brought_forward_and_cancelled() -> None:
    timers: Timers[str] = Timers()
    timers.schedule("a", 10, "a at 10")
    timers.schedule("a", 50, "a at 50")
    timers.schedule("b", 40, "b at 40")
    timers.schedule("b", 20, "b at 20")
    timers.schedule("c", 5, "never")
    timers.cancel("c")
    assert timers.next_deadline_ms == 20
    assert timers.take_due(19) is None
    assert timers.take_due(20) == "b at 20"
    assert timers.take_due(49) is None
    assert timers.take_due(50) == "a at 50"
    assert len(timers) == 0
    assert timers.next_deadline_ms is None


def test_heartbeats_do_not_grow_the_heap() -> None:
    timers: Timers[int] = Timers()
    for now_ms in range(1_000):
        timers.schedule("member", now_ms + 100, now_ms)
    assert len(timers._heap) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 50))), max_size=40
    )
)
def test_as_a_dictionary_of_deadlines(steps: list[tuple[str, int | None]]) -> None:
    timers: Timers[str] = Timers()
    model: dict[str, int] = {}
    for key, deadline_ms in steps:
        if deadline_ms is None:
            timers.cancel(key)
            model.pop(key, None)
        else:
            timers.schedule(key, deadline_ms, key)
            model[key] = deadline_ms
    assert timers.next_deadline_ms == min(model.values(), default=None)
    for now_ms in range(51):
        while (event := timers.take_due(now_ms)) is not None:
            assert model.pop(event) == now_ms
    assert not model
