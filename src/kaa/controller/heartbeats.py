"""Who is alive: what the active controller remembers of brokers and does not write down.

A broker has a session from its last heartbeat on; a new active controller gives every registered
broker a fresh one. A broker that is shut down in a controlled way may stop when every active broker
has applied the records that moved its leaderships, up to its controlled shutdown offset.

Whether a broker is registered, and whether it is fenced, is written down: the image says so.
"""

from __future__ import annotations

from kaa.limits import METADATA_SESSIONS_MAX
from kaa.model.topics import NO_OFFSET


class BrokerProgress:
    """How far one broker is, as its heartbeats show it."""

    __slots__ = ("controlled_shutdown_offset", "metadata_offset")

    def __init__(self) -> None:
        # How far it has applied the metadata log.
        self.metadata_offset = NO_OFFSET
        # Where the records of its controlled shutdown end; -1 while it does not shut down.
        self.controlled_shutdown_offset = NO_OFFSET

    @property
    def is_shutting_down(self) -> bool:
        return self.controlled_shutdown_offset != NO_OFFSET


class Heartbeats:
    """The sessions of brokers, kept in memory by the active controller. Times are monotonic
    milliseconds.
    """

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        # Made for a registered broker when it is asked for.
        self._progress: dict[int, BrokerProgress] = {}
        # Broker id and epoch, to the time of the last heartbeat; the oldest first.
        self._contacts: dict[tuple[int, int], int] = {}
        # Those with a session that this controller has given them and never heard of.
        self._unheard: set[tuple[int, int]] = set()

    # --- progress

    def progress(self, broker_id: int) -> BrokerProgress:
        """How far a registered broker is."""
        found = self._progress.get(broker_id)
        if found is None:
            found = self._progress[broker_id] = BrokerProgress()
        return found

    def forget(self, broker_id: int) -> None:
        """The broker was registered again, or is not registered any more."""
        self._progress.pop(broker_id, None)

    def registration_changed(self, broker_id: int, *, is_fenced: bool) -> None:
        """Its next heartbeat tells how far it is; one that is fenced does not shut down."""
        progress = self.progress(broker_id)
        progress.metadata_offset = NO_OFFSET
        if is_fenced:
            progress.controlled_shutdown_offset = NO_OFFSET

    # --- sessions

    def expect(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """Gives a session to a broker that was not heard of yet."""
        self.contact(broker_id, broker_epoch, now_ms)
        self._unheard.add((broker_id, broker_epoch))

    @property
    def is_full(self) -> bool:
        """Whether there are so many sessions that only registered brokers get more."""
        return len(self._contacts) >= METADATA_SESSIONS_MAX

    def contact(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        key = (broker_id, broker_epoch)
        self._unheard.discard(key)
        self._contacts.pop(key, None)
        self._contacts[key] = now_ms

    def extend(self, time_ms: int) -> None:
        """Lets every session last longer, by a time in which nobody could be heard."""
        for key in self._contacts:
            self._contacts[key] += time_ms

    def has_session(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        contact_ms = self._contacts.get((broker_id, broker_epoch))
        return contact_ms is not None and not self._is_expired(contact_ms, now_ms)

    def was_heard(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the session of a broker comes from a heartbeat."""
        return (broker_id, broker_epoch) not in self._unheard

    def take_expired(self, now_ms: int) -> tuple[int, int] | None:
        """Forgets one session that ended; returns its broker id and epoch."""
        for key, contact_ms in self._contacts.items():
            if not self._is_expired(contact_ms, now_ms):
                return None
            del self._contacts[key]
            self._unheard.discard(key)
            return key
        return None

    def _is_expired(self, contact_ms: int, now_ms: int) -> bool:
        return contact_ms + self._session_timeout_ms < now_ms
