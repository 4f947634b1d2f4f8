"""What lives in the world: nodes, which are the real `Broker`, and clients with their own loops.

A node has a disk that outlives its processes. `crash` ends the process in the middle of whatever it
does; with `kill` its disk keeps what was written, with `lost` only what was synced, and with `torn`
anything in between, page by page. `stop` is a clean end. `start` boots the same broker from what
the disk has.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from kaa.broker.node import Broker, running
from kaa.config.server import load_broker_config
from kaa.config.sources import merge_settings
from kaa.controller.formatting import FormatRequest, plan_format
from kaa.log.sim_files import SimFiles
from kaa.wire.primitives import random_uuid
from tests.simulation.world.executors import SimExecutor
from tests.simulation.world.loop import SimLoop
from tests.simulation.world.network import HostNetwork

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kaa.log.sim_files import CrashMode
    from kaa.quorum.voters import VoterSet
    from kaa.tier.store.objects import ObjectStore
    from kaa.wire.primitives import Uuid
    from tests.simulation.world.kernel import Kernel
    from tests.simulation.world.network import SimNetwork

DATA = "/data"
CLUSTER_ID = "cluster-of-the-world-A"
PORT = 9092
CONTROLLER_PORT = 9093
# Some day in 2026: wall clocks begin here.
EPOCH_MS = 1_790_000_000_000
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0


def host_of(node_id: int) -> str:
    return f"node-{node_id}"


class MachineClock:
    """The clocks of one machine; the wall clock may jump, the monotonic one cannot."""

    __slots__ = ("jump_ms", "kernel", "loop")

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.loop: SimLoop | None = None
        self.jump_ms = 0

    def wall_ms(self) -> int:
        return EPOCH_MS + int(self.kernel.now * 1000) + self.jump_ms

    def monotonic_ms(self) -> int:
        assert self.loop is not None
        return int(self.loop.time() * 1000)

    now_ms = wall_ms


class Node:
    """One machine with its disk, and the broker process on it while there is one."""

    def __init__(
        self,
        kernel: Kernel,
        network: SimNetwork,
        node_id: int,
        voters: tuple[int, ...],
        seed: int,
        *settings: str,
        first_voters: VoterSet | None = None,
        is_broker: bool = True,
        store: ObjectStore | None = None,
    ) -> None:
        """With `first_voters` the log says who votes, and `voters` are those who may."""
        name = host_of(node_id)
        self.kernel = kernel
        self.network = network
        self.name = name
        self.random = Random(seed)
        self.clock = MachineClock(kernel)
        self.files = SimFiles(seed=self.random.randrange(2**31))
        self.disk_slowness = 1.0
        self.loop: SimLoop | None = None
        # The broker while it serves; on its way down too as `watched`, and as `process` from the
        # start to the end.
        self.broker: Broker | None = None
        self.watched: Broker | None = None
        self.process: Broker | None = None
        self.boots = 0
        self.is_formatted = False
        self.is_broker = is_broker
        self._given_voters = first_voters
        self._is_quorum_dynamic = first_voters is not None
        self._store = store
        # Of the disk it has; None before it is formatted.
        self.directory_id: Uuid | None = None
        self.reports: list[str] = []
        # Why the process ended by itself; None unless it did.
        self.failure: BaseException | None = None
        # What the last process that ended in order did not give back.
        self.left: list[str] = []
        self.crash_mode: CrashMode = "kill"
        self._stop: asyncio.Event | None = None
        self._main: asyncio.Task[None] | None = None
        controllers = [f"{host_of(voter)}:{CONTROLLER_PORT}" for voter in voters]
        quorum = f"controller.quorum.bootstrap.servers={','.join(controllers)}"
        if first_voters is None:
            named = (f"{voter}@{at}" for voter, at in zip(voters, controllers, strict=True))
            quorum = f"controller.quorum.voters={','.join(named)}"
        listener = f"CONTROLLER://{name}:{CONTROLLER_PORT}"
        overrides = [
            f"node.id={node_id}",
            f"process.roles={'broker,' if is_broker else ''}controller",
            f"listeners={f'PLAINTEXT://{name}:{PORT},' if is_broker else ''}{listener}",
            "controller.listener.names=CONTROLLER",
            quorum,
            f"log.dirs={DATA}",
            *settings,
        ]
        self.config = load_broker_config(merge_settings(overrides=overrides)).config

    @property
    def bootstrap(self) -> str:
        return f"{self.name}:{PORT}"

    @property
    def is_up(self) -> bool:
        """The process exists; it may still be starting."""
        return self.loop is not None

    @property
    def is_ready(self) -> bool:
        return self.broker is not None

    def boot(self) -> None:
        """Begins a process; `is_ready` says that it serves."""
        assert self.loop is None, "there is a process already"
        self.boots += 1
        self.failure = None
        self.network.host_up(self.name)
        rate = 1 + self.random.uniform(-0.001, 0.001)
        self.loop = SimLoop(
            self.kernel,
            self.name,
            self.network,
            rate=rate,
            fatal=lambda: self.crash(self.crash_mode),
            is_disk_dead=lambda: self.files.dead,
        )
        self.clock.loop = self.loop
        self.kernel.say(self.name, f"boots for the {self.boots}. time")
        self._stop = asyncio.Event()
        self._main = self.loop.create_task(self._serve(self._stop))
        self._main.add_done_callback(self._ended)

    async def _serve(self, stop: asyncio.Event) -> None:
        loop = self.loop
        assert loop is not None
        if not self.is_formatted:
            self.is_formatted = True
            self._format()
        broker = Broker(
            self.config,
            files=self.files,
            clock=self.clock,
            network=HostNetwork(self.network, loop),
            executors=lambda name, threads: SimExecutor(
                self.kernel, loop, name, threads, lambda: self.disk_slowness
            ),
            random=Random(self.random.randrange(2**63)),
            report=self._report,
            store=self._store,
        )
        self.process = broker
        async with running(broker):
            self.broker = self.watched = broker
            self.kernel.say(self.name, "is ready")
            await stop.wait()
            self.broker = None

    def _format(self) -> None:
        config, random = self.config, self.random
        request = FormatRequest(
            CLUSTER_ID,
            config.node_id,
            config.log_dirs,
            config.metadata_log_dir,
            is_quorum_dynamic=self._is_quorum_dynamic,
            voters=self._given_voters,
        )
        plan = plan_format(self.files, request, lambda: random_uuid(random.randbytes))
        self.directory_id = plan.directory_ids[DATA]
        for _ in plan.run(self.files, self.clock.wall_ms(), "formatted in the world"):
            pass

    def _report(self, text: str) -> None:
        self.reports.append(text)
        if "could not follow a change" in text and self.loop is not None:
            # A fault of ours, which the node outlives and a world must not.
            self.loop.complaints.append(text)
        self.kernel.say(self.name, f"reports: {text}")

    def _ended(self, main: asyncio.Task[None]) -> None:
        """The process ended, by its own will or not."""
        if self.loop is None or self.loop.is_dying or main is not self._main:
            return
        error = None if main.cancelled() else main.exception()
        if error is not None:
            self.failure = error
            self.kernel.say(self.name, f"ended by itself: {error!r}")
        self.kernel.after(0, self.bury, self.loop)

    def bury(self, loop: SimLoop) -> None:
        """Takes a process away whose main task has ended."""
        if self.loop is loop:
            self.left = [] if self.failure is not None else self._leftovers(loop)
            self._gone("kill", is_silent=False)

    def _leftovers(self, loop: SimLoop) -> list[str]:
        """What a process that ended in order has not given back."""
        found = [f"{self.name}: task {task}" for task in loop.pending_tasks()]
        found += [f"{self.name}: timer {timer}" for timer in loop.pending_timers()]
        if self.files.open_handles:
            found.append(f"{self.name}: {self.files.open_handles} open files")
        if self.network.open_ends(self.name):
            found.append(f"{self.name}: {self.network.open_ends(self.name)} open connections")
        if self.files.locked:
            found.append(f"{self.name}: locks {sorted(self.files.locked)}")
        return found

    def crash(self, mode: CrashMode) -> None:
        """The process is gone now. A machine without power says nothing to its peers."""
        if self.loop is not None:
            self.kernel.say(self.name, f"crashes ({mode})")
            self._gone(mode, is_silent=mode != "kill")

    def _gone(self, mode: CrashMode, *, is_silent: bool) -> None:
        loop = self.loop
        assert loop is not None
        self.loop = self.broker = self.watched = self.process = self._stop = self._main = None
        self.network.host_down(self.name, is_silent=is_silent)
        complaints = loop.complaints
        self.files = self.files.restart(mode, seed=self.random.randrange(2**31))
        loop.kill()
        if complaints:
            raise AssertionError(f"{self.name}: {complaints}")

    def crash_within(self, operations: int, mode: CrashMode) -> None:
        """Crashes in the middle of one of the next operations on its disk."""
        self.crash_mode = mode
        self.files.crash_at = len(self.files.history) + operations

    def lose_disk(self) -> None:
        """The process is gone, and its disk with it; the next one is empty, and has another id."""
        self.crash("kill")
        self.files = SimFiles(seed=self.random.randrange(2**31))
        self.is_formatted = False
        # It is not one of the first voters any more.
        self._given_voters = None

    @property
    def is_stopping(self) -> bool:
        """It was asked to stop, whether it has noticed or not."""
        return self._stop is not None and self._stop.is_set()

    def begin_stop(self) -> None:
        if self._stop is not None:
            self.kernel.say(self.name, "is asked to stop")
            self._stop.set()

    def start(self) -> None:
        """Boots and runs the world until the node serves."""
        self.boot()
        self.kernel.run_until(
            lambda: self.is_ready or not self.is_up,
            START_SECONDS_MAX,
            f"{self.name} was not ready",
        )
        if not self.is_ready:
            raise AssertionError(f"{self.name} did not start: {self.failure!r}")

    def stop(self) -> None:
        self.begin_stop()
        self.kernel.run_until(lambda: not self.is_up, STOP_SECONDS_MAX, f"{self.name} did not stop")

    def tick(self) -> None:
        """Tells the disk what time it is."""
        self.files.now_ms = self.clock.wall_ms()


class ClientProcess:
    """A loop of its own for clients, under a host name of its own."""

    def __init__(self, kernel: Kernel, network: SimNetwork, name: str, seed: int) -> None:
        self.kernel = kernel
        self.name = name
        self.random = Random(seed)
        self.clock = MachineClock(kernel)
        self.loop = SimLoop(kernel, name, network)
        self.clock.loop = self.loop

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.loop.create_task(work)

    def run(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:
        """Runs the world until the work is done; its result, or its error."""
        task = self.begin(work)
        self.kernel.run_until(task.done, seconds, f"{self.name} was not done")
        return task.result()

    def close(self) -> None:
        self.loop.kill()
