"""The states of a broker in its cluster, and the requests that lead from one to the next.

| State | Meaning | Leaves it |
|---|---|---|
| STARTING | has no epoch yet | when a registration is accepted |
| RECOVERY | registered and fenced; follows the metadata | when it is unfenced |
| RUNNING | leads and follows partitions | when it is asked to leave |
| LEAVING | asks to be let go; its leaderships move | when that is granted, or too late |
| LEFT | says nothing any more | |

One request is under way at a time. A heartbeat says how far the broker has followed the metadata;
the controller unfences a broker that wants it and has followed its own registration. A controller
that knows another epoch of the broker, or none, answers STALE_BROKER_EPOCH: then the broker
registers again, as the same incarnation, and goes on in the state it is in; one that is leaving has
left. Failures are tried again after a pause that doubles. What only an operator can mend ends a
start at once; everything else does when no registration succeeds within its time limit.

What a heartbeat says of the broker's directories goes out at once when it changes. A directory that
failed has to be reported within `log.dir.failure.timeout.ms` (KIP-858): a controller that does not
know of it leaves leaderships where nobody can serve them, so a broker that cannot report it stops.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.client.backoff import Backoff
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.model.seams import RandomSource
    from kaa.wire.primitives import Uuid


class LifecycleState(Enum):
    """Where a broker is in its life, as the table above tells."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    LEAVING = "leaving"
    LEFT = "left"


class LifecycleTimes(NamedTuple):
    """The settings of a life, in milliseconds."""

    heartbeat_interval_ms: int
    retry_pause_ms: int
    retry_pause_ms_max: int
    registration_timeout_ms: int


# --- events


class Start(NamedTuple):
    """Begin to register."""


class Registered(NamedTuple):
    """The answer to a registration."""

    error: Errors
    broker_epoch: int = -1


class Beaten(NamedTuple):
    """The answer to a heartbeat."""

    error: Errors
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
    # The offline directories that the heartbeat named.
    offline: tuple[Uuid, ...] = ()


class DirectoryFailed(NamedTuple):
    """A directory went offline, and the controller has to know within this time."""

    directory: Uuid
    timeout_ms: int


class DirectoriesChanged(NamedTuple):
    """The next heartbeat has something else to say of the broker's directories."""


class Outdated(NamedTuple):
    """The registration lacks what the cluster has come to know of brokers since."""


class Published(NamedTuple):
    """This node has followed the metadata up to and including an offset."""

    offset: int


class Ready(NamedTuple):
    """The partitions of the broker are there: it may lead."""


class Leave(NamedTuple):
    """The broker is to leave the cluster, and is not waited for longer than this."""

    timeout_ms: int


class Tick(NamedTuple):
    """Time has passed."""


Event = (
    Start
    | Registered
    | Beaten
    | DirectoryFailed
    | DirectoriesChanged
    | Outdated
    | Published
    | Ready
    | Leave
    | Tick
)

# --- effects


class SendRegistration(NamedTuple):
    """Register; the answer comes back as `Registered`."""

    previous_epoch: int


class SendHeartbeat(NamedTuple):
    """Send a heartbeat; the answer comes back as `Beaten`."""

    broker_epoch: int
    want_fence: bool
    want_shut_down: bool


class GotEpoch(NamedTuple):
    """The controller knows the broker under this epoch."""

    broker_epoch: int


class Unfenced(NamedTuple):
    """The controller takes the broker as live."""


class Refused(NamedTuple):
    """The cluster does not take this broker."""

    error: Errors


class Unreported(NamedTuple):
    """A failed directory could not be reported in time: the broker has to stop."""

    directory: Uuid


class Left(NamedTuple):
    """The broker may stop; granted by the controller, or its time is up."""

    is_granted: bool


Effect = SendRegistration | SendHeartbeat | GotEpoch | Unfenced | Refused | Unreported | Left

# No later try can end otherwise.
_FINAL: Final = frozenset(
    {
        Errors.INCONSISTENT_CLUSTER_ID,
        Errors.UNSUPPORTED_VERSION,
        Errors.INVALID_REGISTRATION,
        Errors.BROKER_ID_NOT_REGISTERED,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class LifecycleMachine:
    """Decides which request a broker sends to the controller next. `handle` events;
    `next_deadline_ms` says when to come with a `Tick`.
    """

    def __init__(self, times: LifecycleTimes, previous_epoch: int, random: RandomSource) -> None:
        self.state = LifecycleState.STARTING
        # The epoch of this incarnation, or of the one before while there is none.
        self.broker_epoch = -1
        self._previous_epoch = previous_epoch
        self._times = times
        self._backoff = Backoff(times.retry_pause_ms, times.retry_pause_ms_max, random)
        self._is_registered = False
        # Whether an answer is awaited.
        self._is_busy = False
        self._is_ready = False
        self._published_offset = -1
        # When the next request is due; None before the start and after the end.
        self._due_ms: int | None = None
        # When a registration counts as refused, and a leave as granted.
        self._deadline_ms: int | None = None
        # By failed directory, until when it has to be reported to the controller.
        self._unreported: dict[Uuid, int] = {}
        # Whether something changed since the last heartbeat was made.
        self._has_news = False

    @property
    def has_left(self) -> bool:
        return self.state is LifecycleState.LEFT

    @property
    def awaits_metadata(self) -> bool:
        """Whether this node has yet to follow the metadata to its own registration."""
        return self._published_offset < self.broker_epoch

    @property
    def next_deadline_ms(self) -> int | None:
        due_ms = None if self._is_busy else self._due_ms
        times = [time for time in (due_ms, self._deadline_ms) if time is not None]
        return min([*times, *self._unreported.values()], default=None)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        if self.has_left:
            return []
        effects: list[Effect] = []
        match event:
            case Start():
                self._due_ms = now_ms
                self._deadline_ms = now_ms + self._times.registration_timeout_ms
            case Registered():
                self._registered(event, now_ms, effects)
            case Beaten():
                self._beaten(event, now_ms, effects)
            case DirectoryFailed(directory, timeout_ms):
                self._unreported[directory] = now_ms + timeout_ms
                self._has_news = True
                self._hurry(now_ms)
            case DirectoriesChanged():
                self._has_news = True
                self._hurry(now_ms)
            case Outdated():
                if self.state in {LifecycleState.RECOVERY, LifecycleState.RUNNING}:
                    self._hurry(now_ms)
                    self._has_news = True
                    self._is_registered = False
            case Published(offset):
                was_behind = self.awaits_metadata
                self._published_offset = offset
                if was_behind and offset >= self.broker_epoch and self._is_ready:
                    self._hurry(now_ms)
            case Ready():
                self._is_ready = True
                self._hurry(now_ms)
            case Leave(timeout_ms):
                self._leave(timeout_ms, now_ms, effects)
            case Tick():
                pass
        if not self.has_left:
            self._do_what_is_due(now_ms, effects)
        return effects

    def _registered(self, answer: Registered, now_ms: int, effects: list[Effect]) -> None:
        self._is_busy = False
        if answer.error is Errors.NONE:
            self._backoff.reset()
            self._is_registered = True
            self.broker_epoch = self._previous_epoch = answer.broker_epoch
            if self.state is LifecycleState.STARTING:
                self.state = LifecycleState.RECOVERY
                self._deadline_ms = None
            effects.append(GotEpoch(answer.broker_epoch))
            self._due_ms = now_ms
        elif answer.error in _FINAL and self.state is LifecycleState.STARTING:
            self._refuse(answer.error, effects)
        else:
            self._due_ms = now_ms + int(self._backoff.next_ms())

    def _beaten(self, answer: Beaten, now_ms: int, effects: list[Effect]) -> None:
        self._is_busy = False
        if answer.error is not Errors.NONE:
            if answer.error is Errors.STALE_BROKER_EPOCH:
                self._is_registered = False
                if self.state is LifecycleState.LEAVING:
                    # It leads nothing that the controller knows of, and must not come back.
                    self._end(effects, is_granted=False)
                    return
            self._due_ms = now_ms + int(self._backoff.next_ms())
            return
        self._backoff.reset()
        for directory in answer.offline:
            self._unreported.pop(directory, None)
        self._due_ms = now_ms + (0 if self._has_news else self._times.heartbeat_interval_ms)
        if self.state is LifecycleState.LEAVING:
            # Asked for again soon: it is granted as soon as the leaderships have moved.
            self._due_ms = now_ms + self._times.retry_pause_ms
            if answer.should_shut_down:
                self._end(effects, is_granted=True)
        elif self.state is LifecycleState.RECOVERY and not answer.is_fenced:
            self.state = LifecycleState.RUNNING
            effects.append(Unfenced())
        elif self.state is LifecycleState.RECOVERY and self._is_ready:
            # The partitions are there, and the controller has yet to commit that.
            self._due_ms = now_ms + self._times.retry_pause_ms

    def _leave(self, timeout_ms: int, now_ms: int, effects: list[Effect]) -> None:
        if self.state is LifecycleState.STARTING:
            self._end(effects, is_granted=False)
        elif self.state is not LifecycleState.LEAVING:
            self.state = LifecycleState.LEAVING
            self._deadline_ms = now_ms + timeout_ms
            self._hurry(now_ms)

    def _hurry(self, now_ms: int) -> None:
        if self._due_ms is not None and self._is_registered:
            self._due_ms = now_ms

    def _do_what_is_due(self, now_ms: int, effects: list[Effect]) -> None:
        if self._deadline_ms is not None and now_ms >= self._deadline_ms:
            if self.state is LifecycleState.LEAVING:
                self._end(effects, is_granted=False)
            else:
                self._refuse(Errors.REQUEST_TIMED_OUT, effects)
            return
        for directory, deadline_ms in self._unreported.items():
            if now_ms >= deadline_ms:
                self.state = LifecycleState.LEFT
                effects.append(Unreported(directory))
                return
        if self._is_busy or self._due_ms is None or now_ms < self._due_ms:
            return
        self._is_busy = True
        if self._is_registered:
            self._has_news = False
            is_leaving = self.state is LifecycleState.LEAVING
            effects.append(
                SendHeartbeat(
                    self.broker_epoch,
                    want_fence=not self._is_ready and not is_leaving,
                    want_shut_down=is_leaving,
                )
            )
        else:
            effects.append(SendRegistration(self._previous_epoch))

    def _refuse(self, error: Errors, effects: list[Effect]) -> None:
        self.state = LifecycleState.LEFT
        self._due_ms = self._deadline_ms = None
        effects.append(Refused(error))

    def _end(self, effects: list[Effect], *, is_granted: bool) -> None:
        self.state = LifecycleState.LEFT
        self._due_ms = self._deadline_ms = None
        effects.append(Left(is_granted))
