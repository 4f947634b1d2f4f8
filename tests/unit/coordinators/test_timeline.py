"""The timeline beside a naive model that keeps a whole copy of the state for every offset."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kaa.coordinators.timeline import Timeline, TimelineDict

KEYS = st.sampled_from("abc")


def test_a_reader_sees_what_is_committed() -> None:
    timeline = Timeline()
    numbers: TimelineDict[str, int] = TimelineDict(timeline)
    numbers["a"] = 1
    timeline.move(1)
    numbers["a"] = 2
    assert (numbers["a"], numbers.committed("a")) == (2, None)
    timeline.commit(1)
    assert (numbers["a"], numbers.committed("a")) == (2, 1)
    timeline.commit(2)
    assert numbers.committed("a") == 2
    assert numbers.is_clean
    assert len(timeline) == 0


def test_going_back_restores_values_and_absence() -> None:
    timeline = Timeline()
    numbers: TimelineDict[str, int] = TimelineDict(timeline)
    numbers["a"] = 1
    timeline.move(1)
    numbers["b"] = 2
    numbers.pop("a")
    timeline.revert(1)
    assert dict(numbers.items()) == {"a": 1}
    timeline.revert(0)
    assert dict(numbers.items()) == {}


def test_a_replay_of_what_is_committed_keeps_no_history() -> None:
    timeline = Timeline()
    timeline.commit(10)
    numbers: TimelineDict[str, int] = TimelineDict(timeline)
    for offset in range(10):
        timeline.move(offset)
        numbers["a"] = offset
    assert len(timeline) == 0
    assert numbers.committed("a") == 9


class TimelineModel(RuleBasedStateMachine):
    """Any order of writes, removals, commits and reverts."""

    def __init__(self) -> None:
        super().__init__()
        self.timeline = Timeline()
        self.one: TimelineDict[str, int] = TimelineDict(self.timeline)
        self.two: TimelineDict[str, int] = TimelineDict(self.timeline)
        # The state before each offset, from the committed one on.
        self.states: dict[int, tuple[dict[str, int], dict[str, int]]] = {0: ({}, {})}
        self.newest: tuple[dict[str, int], dict[str, int]] = ({}, {})

    @rule(which=st.integers(0, 1), key=KEYS, value=st.integers())
    def put(self, which: int, key: str, value: int) -> None:
        (self.one, self.two)[which][key] = value
        self.newest[which][key] = value

    @rule(which=st.integers(0, 1), key=KEYS)
    def remove(self, which: int, key: str) -> None:
        removed = (self.one, self.two)[which].pop(key)
        assert removed == self.newest[which].pop(key, None)

    @rule()
    def next_record(self) -> None:
        self.timeline.move(self.timeline.position + 1)
        self.states[self.timeline.position] = (dict(self.newest[0]), dict(self.newest[1]))

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.timeline.committed_offset, self.timeline.position))
        self.timeline.commit(offset)

    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.timeline.committed_offset, self.timeline.position))
        self.timeline.revert(offset)
        one, two = self.states[offset]
        self.newest = (dict(one), dict(two))

    @invariant()
    def newest_and_committed_are_as_in_the_model(self) -> None:
        committed = self.states[self.timeline.committed_offset]
        for which, found in enumerate((self.one, self.two)):
            assert dict(found.items()) == self.newest[which]
            assert set(found) == set(self.newest[which])
            assert dict(found.committed_items()) == committed[which]
            assert len(found) == len(self.newest[which])
            for key in "abc":
                assert found.committed(key) == committed[which].get(key)
                assert found.get(key) == self.newest[which].get(key)


TestTimelineModel = TimelineModel.TestCase
TestTimelineModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
