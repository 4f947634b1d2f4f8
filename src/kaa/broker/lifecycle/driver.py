"""Speaks for the broker with the controller, as the machine says, over any controller port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.broker.directories import StartError, StorageLostError
from kaa.broker.lifecycle.machine import (
    Beaten,
    DirectoriesChanged,
    DirectoryFailed,
    GotEpoch,
    Leave,
    Left,
    LifecycleMachine,
    LifecycleTimes,
    Outdated,
    Published,
    Ready,
    Refused,
    Registered,
    SendHeartbeat,
    SendRegistration,
    Start,
    Tick,
    Unfenced,
    Unreported,
)
from kaa.broker.lifecycle.reporting import ReportingPort
from kaa.broker.remedies import refusal_remedy
from kaa.controller.feature_table import supported_ranges
from kaa.controller.port import ControllerRequestContext
from kaa.limits import CONTROLLER_RETRY_PAUSE_MS
from kaa.wire.errors import Errors
from kaa.wire.messages.k62_broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.broker.lifecycle.machine import Effect, Event
    from kaa.config.server import BrokerConfig
    from kaa.controller.port import ControllerPort
    from kaa.model.nodes import Endpoint
    from kaa.model.seams import RandomSource
    from kaa.wire.primitives import Uuid

_REGISTRATION_VERSION: Final = BrokerRegistrationRequest.valid_versions.high
_HEARTBEAT_VERSION: Final = BrokerHeartbeatRequest.valid_versions.high


class BrokerIdentity(NamedTuple):
    """What a broker tells about itself when it registers."""

    cluster_id: str
    incarnation_id: Uuid
    # The addresses that clients and other brokers are to use.
    endpoints: Sequence[Endpoint]
    directories: Sequence[Uuid]
    # From a clean stop; -1 without one.
    previous_epoch: int


class BrokerLifecycle:
    """Registers the broker, sends its heartbeats, and takes it out of the cluster. `run` it in a
    task from the start to the end of the node.
    """

    def __init__(
        self,
        config: BrokerConfig,
        controller: ControllerPort,
        identity: BrokerIdentity,
        random: RandomSource,
        *,
        published_offset: Callable[[], int],
        offline_directories: Callable[[], list[Uuid]],
        cordoned_directories: Callable[[], list[Uuid] | None] = lambda: None,
        lacks_directories: Callable[[], bool] = lambda: False,
        trouble: Callable[[], str | None] = lambda: None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`cordoned_directories` are None while the cluster does not know of such a thing;
        `lacks_directories` says that it knows directories, and none of this broker; `trouble` is
        what keeps the node from the quorum.
        """
        self._trouble = trouble
        self._config = config
        self._report = report
        self._controller = ReportingPort(controller, report)
        self._identity = identity
        self._published_offset = published_offset
        self._offline_directories = offline_directories
        self._cordoned_directories = cordoned_directories
        self._lacks_directories = lacks_directories
        # Whether it was reported that a registration waits for the session of another broker.
        self._is_wait_reported = False
        # Whether the broker has registered again to tell of them.
        self._has_told_directories = False
        session_ms = config.get_int("broker.session.timeout.ms")
        self._timeout_ms = max(1, session_ms // 2)
        times = LifecycleTimes(
            heartbeat_interval_ms=config.get_int("broker.heartbeat.interval.ms"),
            retry_pause_ms=CONTROLLER_RETRY_PAUSE_MS,
            retry_pause_ms_max=self._timeout_ms,
            registration_timeout_ms=config.get_int("initial.broker.registration.timeout.ms"),
        )
        self._machine = LifecycleMachine(times, identity.previous_epoch, random)
        self._loop = asyncio.get_running_loop()
        self._events: list[Event] = []
        self._news = asyncio.Event()
        self._registered: asyncio.Future[None] = self._loop.create_future()
        self._unfenced: asyncio.Future[None] = self._loop.create_future()
        self._left: asyncio.Future[bool] = self._loop.create_future()

    @property
    def epoch(self) -> int:
        return self._machine.broker_epoch

    # --- what the node does

    async def registered(self) -> int:
        """Waits for an epoch; StartError if the cluster does not take this broker."""
        await asyncio.shield(self._registered)
        return self.epoch

    async def unfenced(self) -> None:
        """Has the broker unfenced, whose partitions are there now."""
        self._take(Ready())
        await asyncio.shield(self._unfenced)

    def published(self) -> None:
        """This node has followed more of the metadata; unless that is waited for, the next
        heartbeat is soon enough to say so.
        """
        if self._machine.awaits_metadata:
            self._news.set()

    def directory_failed(self, directory: Uuid) -> None:
        """Notifies the controller at once; `run` fails if that is impossible."""
        timeout_ms = self._config.get_int("log.dir.failure.timeout.ms")
        self._take(DirectoryFailed(directory, timeout_ms))

    def directories_changed(self) -> None:
        """Others are cordoned than before."""
        self._take(DirectoriesChanged())

    async def leave(self, seconds: float) -> bool:
        """Asks to shut down until it is granted; False if that took too long."""
        self._take(Leave(int(seconds * 1000)))
        return await asyncio.shield(self._left)

    def abandon(self) -> None:
        """Says nothing any more, not even that the broker leaves."""
        if not self._left.done():
            self._left.set_result(False)
            self._news.set()

    # --- the driver

    async def run(self) -> None:
        self._take(Start())
        try:
            async with asyncio.TaskGroup() as requests:
                while not self._left.done():
                    await self._wait()
                    # It may have been abandoned meanwhile.
                    if not self._left.done():
                        self._step(requests)
        finally:
            # The node is ending: nobody should wait for what nobody does any more.
            self.abandon()

    def _step(self, requests: asyncio.TaskGroup) -> None:
        events, self._events = self._events or [Tick()], []
        for event in (Published(self._published_offset()), *events):
            for effect in self._machine.handle(event, self._now_ms()):
                self._perform(effect, requests)

    async def _wait(self) -> None:
        deadline_ms = self._machine.next_deadline_ms
        seconds = None if deadline_ms is None else max(0, deadline_ms - self._now_ms()) / 1000
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()

    def _take(self, event: Event) -> None:
        self._events.append(event)
        self._news.set()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _perform(self, effect: Effect, requests: asyncio.TaskGroup) -> None:
        match effect:
            case SendRegistration(previous_epoch):
                requests.create_task(self._register(previous_epoch))
            case SendHeartbeat():
                requests.create_task(self._beat(effect))
            case GotEpoch():
                if not self._registered.done():
                    self._registered.set_result(None)
            case Unfenced():
                if not self._unfenced.done():
                    self._unfenced.set_result(None)
            case Refused(error):
                self._refuse(error)
            case Unreported(directory):
                raise StorageLostError(
                    f"log directory {directory} is offline, and no controller could be "
                    "informed within log.dir.failure.timeout.ms; the node stops, so that "
                    "others take over its leaderships. Restart it when the controllers can be "
                    "reached"
                )
            case Left(is_granted):
                if not self._left.done():
                    self._left.set_result(is_granted)

    def _refuse(self, error: Errors) -> None:
        text = f"the controller refused this broker: {error.message} ({error.name})"
        remedy = refusal_remedy(error)
        if error is Errors.REQUEST_TIMED_OUT:
            text = (
                "no controller registered this broker within initial.broker.registration.timeout.ms"
            )
            remedy = self._trouble() or remedy
        for waiting in (self._registered, self._unfenced):
            if not waiting.done():
                waiting.set_exception(StartError(f"{text}; {remedy}"))
                # Only a start that still goes on hears of it.
                waiting.exception()
        self.abandon()

    async def _register(self, previous_epoch: int) -> None:
        identity = self._identity
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=[
                Listener(
                    name=endpoint.listener,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=endpoint.security_protocol,
                )
                for endpoint in identity.endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in supported_ranges().items()
            ],
            rack=self._config.get_optional_string("broker.rack"),
            log_dirs=list(identity.directories),
            previous_broker_epoch=previous_epoch,
        )
        answer = await self._controller.submit(
            request, ControllerRequestContext(_REGISTRATION_VERSION, timeout_ms=self._timeout_ms)
        )
        error = Errors.of(answer.error_code)
        if error is Errors.DUPLICATE_BROKER_REGISTRATION and not self._is_wait_reported:
            self._is_wait_reported = True
            self._report(
                f"the controller takes broker {self._config.node_id} for alive: this one waits "
                "until the session of its last run has ended (broker.session.timeout.ms). If it "
                "did not run just before, another broker has this node.id"
            )
        self._take(Registered(error, answer.broker_epoch))

    async def _beat(self, beat: SendHeartbeat) -> None:
        offline = self._offline_directories()
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=beat.broker_epoch,
            current_metadata_offset=self._published_offset(),
            want_fence=beat.want_fence,
            want_shut_down=beat.want_shut_down,
            offline_log_dirs=offline,
            cordoned_log_dirs=self._cordoned_directories(),
        )
        answer = await self._controller.submit(
            request, ControllerRequestContext(_HEARTBEAT_VERSION, timeout_ms=self._timeout_ms)
        )
        self._take(
            Beaten(
                Errors.of(answer.error_code),
                answer.is_caught_up,
                answer.is_fenced,
                answer.should_shut_down,
                tuple(offline),
            )
        )
        if not self._lacks_directories():
            self._has_told_directories = False
        elif not self._has_told_directories:
            # The metadata.version is newer than the registration.
            self._has_told_directories = True
            self._take(Outdated())
