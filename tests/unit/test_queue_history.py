"""The checker of histories of queues notices what it is there for."""

from __future__ import annotations

from tests.support.queue_history import DELIVERED, ENDED, Event, problems

ONE = (0, 1)
GOOD = [Event(DELIVERED, ONE, "a", 1), Event(DELIVERED, ONE, "b", 2), Event(ENDED, ONE, "b")]


def test_a_good_history_passes() -> None:
    assert problems(GOOD, {ONE}, 5) == []


def test_faults_are_noticed() -> None:
    again = [*GOOD, Event(DELIVERED, ONE, "c", 3)]
    assert ["came again" in text for text in problems(again, {ONE}, 5)] == [True]
    assert "must not be" in problems(GOOD, {ONE}, 1)[0]
    assert "never ended" in problems(GOOD[:2], {ONE}, 5)[0]
    assert "never ended; it was delivered 0" in problems([], {ONE}, 5)[0]
    assert "never written" in problems(GOOD, set(), 5)[0]


def test_a_record_is_given_up_after_its_last_delivery() -> None:
    assert problems(GOOD[:2], {ONE}, 2) == []
