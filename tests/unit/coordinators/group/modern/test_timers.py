from __future__ import annotations

from kaa.coordinators.group.modern.timers import MemberLate, MemberTimers
from kaa.coordinators.group.streams.member import StreamsMember
from kaa.coordinators.machine import Moment
from kaa.coordinators.timers import Timers

NOW = Moment(1_000, 0)
MEMBER = StreamsMember("m", 4, rebalance_timeout_ms=30)


def test_kinds_do_not_share_deadlines() -> None:
    timers: Timers[object] = Timers()
    share, streams = MemberTimers("share", timers), MemberTimers("streams", timers)
    share.expect_heartbeat("g", "m", 10, NOW)
    streams.expect_heartbeat("g", "m", 20, NOW)
    streams.expect_revocation("g", MEMBER, NOW)
    assert timers.take_due(10) == MemberLate("share", "g", "m")
    share.forget("g", "m")
    assert timers.take_due(20) == MemberLate("streams", "g", "m")
    assert timers.take_due(30) == MemberLate("streams", "g", "m", 4)


def test_a_member_that_is_gone_has_no_deadlines() -> None:
    timers: Timers[object] = Timers()
    streams = MemberTimers("streams", timers)
    streams.expect_heartbeat("g", "m", 20, NOW)
    streams.expect_revocation("g", MEMBER, NOW)
    streams.forget_revocation("g", "m")
    assert len(timers) == 1
    streams.expect_revocation("g", MEMBER, NOW)
    streams.forget("g", "m")
    assert len(timers) == 0
