from __future__ import annotations

import logging

import pytest

from kaa.client.complaints import Complaints
from kaa.limits import CLIENT_COMPLAINT_INTERVAL_MS, CLIENT_COMPLAINTS_MAX

LOG = logging.getLogger("kaa.client.test")


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


def test_what_lasts_is_said_at_first_and_then_seldom(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    complaints = Complaints(LOG, time)
    for _ in range(10):
        complaints.warn("broker", "cannot reach %s", "a:1")
        time.now_ms += CLIENT_COMPLAINT_INTERVAL_MS // 5
    assert caplog.messages == ["cannot reach a:1"] * 2
    assert {one.levelno for one in caplog.records} == {logging.WARNING}


def test_what_may_pass_is_said_when_it_did_not(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(LOG, Time())
    for count in range(3):
        assert caplog.messages == [], count
        complaints.warn("topic", "missing", after=3)
    assert caplog.messages == ["missing"]


def test_the_end_is_told_to_those_who_heard_of_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    complaints = Complaints(LOG, Time())
    complaints.settle("broker", "back")
    complaints.warn("broker", "gone", after=2)
    complaints.settle("broker", "back")
    assert caplog.messages == []
    complaints.warn("broker", "gone")
    complaints.settle("broker", "back")
    complaints.warn("broker", "gone")
    assert caplog.messages == ["gone", "back", "gone"]


def test_they_are_bounded() -> None:
    complaints = Complaints(LOG, Time())
    for number in range(CLIENT_COMPLAINTS_MAX + 5):
        complaints.warn(number, "x", after=2)
    assert len(complaints._open) == CLIENT_COMPLAINTS_MAX
