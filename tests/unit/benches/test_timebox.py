"""The bound on a run, on time that the test moves."""

from __future__ import annotations

from benches.timebox import TimeBox


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_admits_what_fits_and_remembers_what_does_not() -> None:
    clock = Clock()
    box = TimeBox(60, clock)
    assert box.left_seconds == 60
    assert box.admits("short", 60)
    clock.now += 45
    assert not box.admits("long", 20)
    assert box.admits("last", 15)
    assert box.cuts == {"long": "needs about 20 s, 15 s were left"}


def test_nothing_is_left_after_the_end() -> None:
    clock = Clock()
    box = TimeBox(1, clock)
    clock.now += 10
    assert box.left_seconds == 0
    assert not box.admits("any", 0.1)


def test_something_that_began_may_be_cut() -> None:
    box = TimeBox(1, Clock())
    box.cut("cell", "ended after 2 of 3 rounds")
    assert box.cuts == {"cell": "ended after 2 of 3 rounds"}
