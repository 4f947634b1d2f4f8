"""Deadlines of members of consumer groups, besides those of every modern group.

| deadline | set by | when it passes, the member is removed |
|---|---|---|
| join | the answer that a classic member is to join again | always; a join takes it back |
| sync | the answer to a classic member's join | always; a sync takes it back |

Beside them stands when a member was sent its assignment and has not reported to have it: the answer
may be lost. After some heartbeats without a report it is sent again. Kafka relies on the member,
which is to say all about itself after an error; librdkafka does not when a heartbeat timed out, and
would keep what it is to give up, or never read what it was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.modern.timers import MemberTimers

if TYPE_CHECKING:
    from kaa.coordinators.group.consumer.member import ConsumerMember
    from kaa.coordinators.machine import Moment
    from kaa.coordinators.timers import Timers


_HEARTBEATS_WITHOUT_REPORT: Final = 2


@dataclass(frozen=True, slots=True)
class WorkDue:
    """The next slice of work that is too long to be done at once; see `work`."""

    group_id: str
    kind: str


class ConsumerTimers(MemberTimers):
    """Sets and takes back the deadlines of members of consumer groups. What a deadline leads to is
    decided by those who handle its event.
    """

    deadlines = (*MemberTimers.deadlines, "join", "sync")

    def __init__(self, timers: Timers[object]) -> None:
        super().__init__("consumer", timers)
        # By group and member.
        self._sent_ms: dict[tuple[str, str], int] = {}

    def assignment_sent(self, group_id: str, member_id: str, now: Moment) -> None:
        """The member is sent what it has, and is to report it."""
        self._sent_ms[group_id, member_id] = now.monotonic_ms

    def reported(self, group_id: str, member_id: str) -> None:
        self._sent_ms.pop((group_id, member_id), None)

    def is_report_missing(
        self, group_id: str, member_id: str, heartbeat_interval_ms: int, now: Moment
    ) -> bool:
        sent_ms = self._sent_ms.get((group_id, member_id))
        patience_ms = _HEARTBEATS_WITHOUT_REPORT * heartbeat_interval_ms
        return sent_ms is not None and now.monotonic_ms - sent_ms >= patience_ms

    def expect_join(self, group_id: str, member: ConsumerMember, now: Moment) -> None:
        """Only the first of several answers counts."""
        if not self._is_expected("join", group_id, member.member_id):
            self._expect("join", group_id, member.member_id, member.rebalance_timeout_ms, now)

    def forget_join(self, group_id: str, member_id: str) -> None:
        self._cancel("join", group_id, member_id)

    def expect_sync(self, group_id: str, member_id: str, timeout_ms: int, now: Moment) -> None:
        self._expect("sync", group_id, member_id, timeout_ms, now)

    def forget_sync(self, group_id: str, member_id: str) -> None:
        self._cancel("sync", group_id, member_id)

    def forget(self, group_id: str, member_id: str) -> None:
        self.reported(group_id, member_id)
        super().forget(group_id, member_id)

    def schedule_work(self, event: WorkDue, delay_ms: int, now: Moment) -> None:
        key = (f"consumer {event.kind}", event.group_id)
        self._timers.schedule(key, now.monotonic_ms + delay_ms, event)
