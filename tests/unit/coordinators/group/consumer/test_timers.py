from __future__ import annotations

from kaa.coordinators.group.consumer.member import ConsumerMember
from kaa.coordinators.group.consumer.timers import ConsumerTimers, WorkDue
from kaa.coordinators.group.modern.timers import MemberLate
from kaa.coordinators.machine import Moment
from kaa.coordinators.timers import Timers

NOW = Moment(1_000, 0)
MEMBER = ConsumerMember("m", 4, rebalance_timeout_ms=30)


def test_each_deadline_is_its_own() -> None:
    timers: Timers[object] = Timers()
    consumer = ConsumerTimers(timers)
    consumer.expect_heartbeat("g", "m", 10, NOW)
    consumer.expect_revocation("g", MEMBER, NOW)
    consumer.expect_join("g", MEMBER, NOW)
    consumer.expect_sync("g", "m", 40, NOW)
    consumer.schedule_work(WorkDue("g", "regex"), 5, NOW)
    assert len(timers) == 5
    assert timers.take_due(5) == WorkDue("g", "regex")
    assert timers.take_due(10) == MemberLate("consumer", "g", "m")
    assert timers.take_due(10) is None
    assert timers.take_due(30) == MemberLate("consumer", "g", "m", 4)
    consumer.forget("g", "m")
    assert len(timers) == 0


def test_they_can_be_taken_back() -> None:
    timers: Timers[object] = Timers()
    consumer = ConsumerTimers(timers)
    consumer.expect_revocation("g", MEMBER, NOW)
    consumer.expect_join("g", MEMBER, NOW)
    # The first answer counts.
    consumer.expect_join("g", MEMBER._replace(rebalance_timeout_ms=90), NOW)
    consumer.expect_sync("g", "m", 40, NOW)
    consumer.forget_revocation("g", "m")
    consumer.forget_sync("g", "m")
    assert len(timers) == 1
    assert timers.next_deadline_ms == 30
    consumer.forget_join("g", "m")
    assert len(timers) == 0


def test_a_report_is_missing_after_two_heartbeats() -> None:
    consumer = ConsumerTimers(Timers())

    def is_missing(now_ms: int) -> bool:
        return consumer.is_report_missing("g", "m", 10, Moment(1_000 + now_ms, now_ms))

    assert not is_missing(100)
    consumer.assignment_sent("g", "m", NOW)
    assert [is_missing(now_ms) for now_ms in (0, 19, 20, 90)] == [False, False, True, True]
    consumer.assignment_sent("g", "m", Moment(1_020, 20))
    assert not is_missing(39)
    consumer.reported("g", "m")
    assert not is_missing(90)
    consumer.assignment_sent("g", "m", NOW)
    consumer.forget("g", "m")
    assert not is_missing(90)
