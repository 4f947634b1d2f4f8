"""Who is alive: what the active controller remembers of brokers and does not write down.

A broker has a session from its last heartbeat on; a new active controller gives every registered
broker a fresh one. A broker that is shut down in a controlled way may stop when every active broker
has applied the records that moved its leaderships, up to its controlled shutdown offset.
"""

from __future__ import annotations

from typing import Final

_NO_OFFSET: Final = -1


class BrokerState:
    """One broker as its heartbeats show it."""

    __slots__ = ("controlled_shutdown_offset", "is_fenced", "is_leaving", "metadata_offset")

    def __init__(self, is_fenced: bool) -> None:
        self.is_fenced = is_fenced
        # Whether its last heartbeat found it in a controlled shutdown.
        self.is_leaving = False
        # How far it has applied the metadata log.
        self.metadata_offset = _NO_OFFSET
        # Where the records of its controlled shutdown end; -1 while it does not shut down.
        self.controlled_shutdown_offset = _NO_OFFSET

    @property
    def is_shutting_down(self) -> bool:
        return self.controlled_shutdown_offset != _NO_OFFSET


class Heartbeats:
    """The sessions of brokers, kept in memory by the active controller. Times are monotonic
    milliseconds.
    """

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._brokers: dict[int, BrokerState] = {}
        # Broker id and epoch, to the time of the last heartbeat; the oldest first.
        self._contacts: dict[tuple[int, int], int] = {}

    def broker(self, broker_id: int) -> BrokerState | None:
        return self._brokers.get(broker_id)

    def register(self, broker_id: int, *, is_fenced: bool) -> None:
        """A registration was written, or its fencing changed."""
        state = self._brokers.get(broker_id)
        if state is None:
            state = self._brokers[broker_id] = BrokerState(is_fenced)
        elif state.is_fenced == is_fenced:
            # Something else of it has changed; its next heartbeat tells how far it is.
            state.metadata_offset = _NO_OFFSET
        state.is_fenced = is_fenced
        if is_fenced:
            state.controlled_shutdown_offset = _NO_OFFSET

    def remove(self, broker_id: int) -> None:
        self._brokers.pop(broker_id, None)

    def contact(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        key = (broker_id, broker_epoch)
        self._contacts.pop(key, None)
        self._contacts[key] = now_ms

    def has_session(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        contact_ms = self._contacts.get((broker_id, broker_epoch))
        return contact_ms is not None and not self._is_expired(contact_ms, now_ms)

    def take_expired(self, now_ms: int) -> tuple[int, int] | None:
        """Forgets one session that ended; returns its broker id and epoch."""
        for key, contact_ms in self._contacts.items():
            if not self._is_expired(contact_ms, now_ms):
                return None
            del self._contacts[key]
            return key
        return None

    def touch(
        self, broker_id: int, *, is_fenced: bool, is_leaving: bool, metadata_offset: int
    ) -> None:
        state = self._brokers[broker_id]
        state.is_fenced = is_fenced
        state.is_leaving = is_leaving
        state.metadata_offset = metadata_offset
        if is_fenced:
            state.controlled_shutdown_offset = _NO_OFFSET

    def heartbeat_written(self, broker_id: int, offset: int) -> None:
        """The records of a heartbeat end at `offset`. If they move the leaderships of a broker
        that leaves, others have to know them before it may go.
        """
        state = self._brokers.get(broker_id)
        if state is not None and state.is_leaving and not state.is_shutting_down:
            state.controlled_shutdown_offset = offset

    def lowest_active_offset(self) -> int | None:
        """How far every active broker has applied the log; None if there is no such broker."""
        offsets = [
            state.metadata_offset
            for state in self._brokers.values()
            if not state.is_fenced and not state.is_shutting_down
        ]
        return min(offsets, default=None)

    def _is_expired(self, contact_ms: int, now_ms: int) -> bool:
        return contact_ms + self._session_timeout_ms < now_ms
