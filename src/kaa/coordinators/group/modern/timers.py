"""Deadlines of members of modern groups.

| deadline | set by | when it passes, the member is removed |
|---|---|---|
| session | every heartbeat | always |
| revocation | the request to give something up | if it is still at that epoch |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from kaa.coordinators.machine import Moment
    from kaa.coordinators.timers import Timers


@dataclass(frozen=True, slots=True)
class MemberLate:
    """A member has missed a deadline. With an epoch, only if it is still at that one."""

    # Of the group when the deadline was set.
    kind: str
    group_id: str
    member_id: str
    epoch: int | None = None


class RevokingMember(Protocol):
    """A member that may have to give something up."""

    @property
    def member_id(self) -> str: ...
    @property
    def member_epoch(self) -> int: ...
    @property
    def rebalance_timeout_ms(self) -> int: ...


class MemberTimers:
    """Sets and takes back the deadlines of members of one kind of group."""

    deadlines: ClassVar[tuple[str, ...]] = ("session", "revocation")

    def __init__(self, kind: str, timers: Timers[object]) -> None:
        self._kind = kind
        self._timers = timers

    def expect_heartbeat(self, group_id: str, member_id: str, timeout_ms: int, now: Moment) -> None:
        self._expect("session", group_id, member_id, timeout_ms, now)

    def expect_revocation(self, group_id: str, member: RevokingMember, now: Moment) -> None:
        timeout_ms, epoch = member.rebalance_timeout_ms, member.member_epoch
        self._expect("revocation", group_id, member.member_id, timeout_ms, now, epoch)

    def forget_revocation(self, group_id: str, member_id: str) -> None:
        self._cancel("revocation", group_id, member_id)

    def forget(self, group_id: str, member_id: str) -> None:
        """The member is gone."""
        for deadline in self.deadlines:
            self._cancel(deadline, group_id, member_id)

    def _expect(
        self,
        deadline: str,
        group_id: str,
        member_id: str,
        timeout_ms: int,
        now: Moment,
        epoch: int | None = None,
    ) -> None:
        event = MemberLate(self._kind, group_id, member_id, epoch)
        key = self._key(deadline, group_id, member_id)
        self._timers.schedule(key, now.monotonic_ms + timeout_ms, event)

    def _is_expected(self, deadline: str, group_id: str, member_id: str) -> bool:
        return self._key(deadline, group_id, member_id) in self._timers

    def _cancel(self, deadline: str, group_id: str, member_id: str) -> None:
        self._timers.cancel(self._key(deadline, group_id, member_id))

    def _key(self, deadline: str, group_id: str, member_id: str) -> tuple[str, str, str, str]:
        return self._kind, deadline, group_id, member_id
