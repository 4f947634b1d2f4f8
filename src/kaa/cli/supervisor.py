"""Several nodes on this machine, kept by one supervisor; and the plan of a cluster to try out.

Each node is a process of its own (`kaa broker start`), since one broker uses one core. The
supervisor passes on what the nodes say, with the number of the node before each line. When it is
asked to stop, it passes that on and waits; asked again, it ends them at once. Nodes end with it
however it ends: each holds a pipe that nobody writes to, and stops when its other side is gone
(`run_supervised`). What it does about a node that ends by itself is the caller's to say (`OnExit`):
a cluster that is only for trying things out should not limp, and ends as a whole; on a host that
serves, the node is started again, after a pause that doubles while it keeps failing. SIGHUP
restarts the nodes one after the other, each when the one before is ready.

The nodes of a cluster to try out (`plan_cluster`) are broker and controller both, and all of them
vote. Ports follow from the first one, so that a cluster whose data is kept finds its voters again:
brokers listen on port, port + 1 and so on, controllers 10,000 above.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import ExitStack, contextmanager
from enum import Enum
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kaa.cli.broker import EXIT_FAILED, load_config, say
from kaa.limits import RESTART_PAUSE_SECONDS_MAX, RESTART_PAUSE_SECONDS_MIN
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from kaa.quorum.voters import VoterSet

HOST: Final = "127.0.0.1"
CONTROLLER_PORT_DISTANCE: Final = 10_000
_REPLICAS_MAX: Final = 3
_PROGRAM: Final = "from kaa.cli.supervisor import run_supervised; run_supervised()"


class OnExit(Enum):
    """What happens when a node ends by itself."""

    STOP_ALL = "stop all"
    RESTART = "restart"


class SupervisedNode(Protocol):
    """What the supervisor knows of a node."""

    @property
    def node_id(self) -> int: ...

    @property
    def address(self) -> str:
        """Where its clients go."""
        ...

    @property
    def arguments(self) -> Sequence[str]:
        """What `kaa` is started with."""
        ...


class NodePlan(NamedTuple):
    """One node of a cluster to try out: where its data is, what differs from a node alone."""

    node_id: int
    folder: Path
    port: int
    controller_port: int
    overrides: tuple[str, ...]

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def arguments(self) -> list[str]:
        words = [word for override in self.overrides for word in ("--override", override)]
        return ["broker", "start", "--data-dir", str(self.folder), *words]


def plan_cluster(
    folder: Path, count: int, port: int, overrides: Sequence[str] = ()
) -> list[NodePlan]:
    """Nodes 1 to `count`, with as many replicas of everything as make sense."""
    ports = [port + place for place in range(count)]
    controllers = [each + CONTROLLER_PORT_DISTANCE for each in ports]
    servers = ",".join(f"{HOST}:{each}" for each in controllers)
    replicas = min(count, _REPLICAS_MAX)
    shared = [
        f"controller.quorum.bootstrap.servers={servers}",
        f"default.replication.factor={replicas}",
        f"offsets.topic.replication.factor={replicas}",
        f"transaction.state.log.replication.factor={replicas}",
        f"transaction.state.log.min.isr={replicas // 2 + 1}",
        f"share.coordinator.state.topic.replication.factor={replicas}",
        f"share.coordinator.state.topic.min.isr={replicas // 2 + 1}",
        *overrides,
    ]
    listeners = [
        f"PLAINTEXT://{HOST}:{own},CONTROLLER://{HOST}:{controller}"
        for own, controller in zip(ports, controllers, strict=True)
    ]
    return [
        NodePlan(
            place + 1,
            folder / f"node-{place + 1}",
            ports[place],
            controllers[place],
            (
                f"node.id={place + 1}",
                f"listeners={listeners[place]}",
                *shared,
            ),
        )
        for place in range(count)
    ]


def format_cluster(plans: Sequence[NodePlan], now_ms: int) -> bool:
    """Makes the nodes the voters of one new cluster; False if they were formatted before."""
    from kaa.controller.formatting import FormatRequest, plan_format
    from kaa.log.files import RealFiles
    from kaa.log.properties import read_meta_properties
    from kaa.model.nodes import Endpoint
    from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
    from kaa.wire.primitives import random_uuid

    files, random = RealFiles(), SystemRandom()
    if any(read_meta_properties(files, str(plan.folder)) is not None for plan in plans):
        return False
    new_id = partial(random_uuid, random.randbytes)
    voters = VoterSet.of(
        VoterNode(
            ReplicaKey(plan.node_id, new_id()),
            (Endpoint("CONTROLLER", HOST, plan.controller_port),),
            KRAFT_VERSIONS,
        )
        for plan in plans
    )
    cluster_id = str(new_id())
    for plan in plans:
        config = load_config(None, plan.overrides, plan.folder).config
        request = FormatRequest(
            cluster_id=cluster_id,
            node_id=plan.node_id,
            directories=config.log_dirs,
            metadata_directory=config.metadata_log_dir,
            is_quorum_dynamic=True,
            voters=voters,
        )
        for _ in plan_format(files, request, new_id).run(files, now_ms, "formatted by kaa"):
            pass
    return True


@contextmanager
def told_failures() -> Iterator[None]:
    """What keeps the directories of nodes from being used ends a command in one line."""
    from kaa.broker.directories import NodeError
    from kaa.broker.remedies import remedy
    from kaa.cli.client import complain
    from kaa.controller.result import FormatError
    from kaa.log.errors import CorruptFileError, StorageError, error_text

    try:
        yield
    except NodeError as error:
        text = str(error)
    except FormatError as error:
        step = remedy(error) if error.__cause__ else "put the directory of this node there"
        text = f"{error}; {step}"
    except (CorruptFileError, StorageError) as error:
        text = f"{error}; {remedy(error)}"
    except OSError as error:
        text = f"cannot use {error_text(error)}; {remedy(error)}"
    else:
        return
    complain(text)
    sys.exit(EXIT_FAILED)


def voters_of_cluster(folders: Sequence[str]) -> tuple[VoterSet, bool]:
    """Who votes by what the first of the nodes has kept, with the addresses of that time, and
    whether it has written anything since it was formatted. StartError while a node runs there.
    """
    from kaa.broker.directories import take_lock
    from kaa.log.dirs import LogDirectory
    from kaa.log.files import RealFiles
    from kaa.quorum.control_state import ControlState
    from kaa.quorum.metadata_log import MetadataLogConfig, open_metadata_log
    from kaa.quorum.voters import VoterSet

    directories = [LogDirectory(RealFiles(), folder) for folder in folders]
    with ExitStack() as locks:
        for directory in directories:
            take_lock(directory.take_lock, "--data-dir")
            locks.callback(directory.release_lock)
        opened = open_metadata_log(directories[0], MetadataLogConfig(), 0, SystemRandom())
        locks.callback(opened.log.abandon)
        control = ControlState(VoterSet())
        control.read(opened)
        return control.voters.last(), opened.log.end_offset > 0


def run_supervised() -> None:
    """The program of a node: `kaa`, until standard input ends with the supervisor."""
    from kaa.cli import main

    threading.Thread(target=_stop_with_supervisor, args=(os.dup(0),), daemon=True).start()
    main()


def _stop_with_supervisor(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


class Supervisor:
    """Starts and watches the processes of several nodes. `run` it once; it gives the exit code when
    all of them have ended.
    """

    def __init__(self, plans: Sequence[SupervisedNode], on_exit: OnExit = OnExit.STOP_ALL) -> None:
        self._plans = plans
        self._on_exit = on_exit
        self._nodes: dict[int, asyncio.subprocess.Process] = {}
        self._ready: dict[int, asyncio.Event] = {plan.node_id: asyncio.Event() for plan in plans}
        # Nodes that were asked to end, to be started again at once.
        self._rolling: set[int] = set()
        self._asked_to_roll = asyncio.Event()
        self._is_to_stop = asyncio.Event()

    async def run(self, beside: Callable[[], Awaitable[None]] | None = None) -> int:
        """Serves until it is asked to stop; `beside` runs once every node is ready."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._asked_to_roll.set)
        try:
            async with asyncio.TaskGroup() as tasks:
                keepers = [tasks.create_task(self._keep(plan)) for plan in self._plans]
                guests = [tasks.create_task(self._play(beside)), tasks.create_task(self._roll())]
                await asyncio.wait(
                    [*keepers, tasks.create_task(self._is_to_stop.wait())],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                was_asked = self._is_to_stop.is_set()
                self._is_to_stop.set()
                for guest in guests:
                    guest.cancel()
                self._signal(signal.SIGTERM)
                # One that somebody has paused hears nothing until it goes on.
                self._signal(signal.SIGCONT)
                codes = await asyncio.gather(*keepers)
        finally:
            self._signal(signal.SIGKILL)
        if not was_asked:
            say("a node exited, so the cluster was stopped")
        say("stopped")
        return 0 if was_asked and not any(codes) else EXIT_FAILED

    def _asked_to_stop(self) -> None:
        if self._is_to_stop.is_set():
            say("ending the nodes at once")
            self._signal(signal.SIGKILL)
        self._is_to_stop.set()

    def _signal(self, number: signal.Signals) -> None:
        for process in self._nodes.values():
            if process.returncode is None:
                process.send_signal(number)

    async def _play(self, beside: Callable[[], Awaitable[None]] | None) -> None:
        await self._all_ready()
        servers = ",".join(plan.address for plan in self._plans)
        say(f"cluster    {count_text(len(self._plans), 'node')}, bootstrap servers {servers}")
        if beside is not None:
            await beside()

    async def _all_ready(self) -> None:
        for event in self._ready.values():
            await event.wait()

    async def _roll(self) -> None:
        """Restarts one node after the other whenever it is asked to."""
        while True:
            await self._asked_to_roll.wait()
            self._asked_to_roll.clear()
            say("restarting the nodes one after the other")
            for plan in self._plans:
                await self._all_ready()
                self._ready[plan.node_id].clear()
                self._rolling.add(plan.node_id)
                self._nodes[plan.node_id].terminate()
            await self._all_ready()
            say("every node was restarted")

    async def _keep(self, plan: SupervisedNode) -> int:
        """One node for as long as it is wanted; its last exit code."""
        pause = RESTART_PAUSE_SECONDS_MIN
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            code = await self._serve(plan)
            self._ready[plan.node_id].clear()
            is_rolling = plan.node_id in self._rolling
            self._rolling.discard(plan.node_id)
            if self._is_to_stop.is_set():
                return code
            if is_rolling:
                continue
            if self._on_exit is OnExit.STOP_ALL:
                return code
            if loop.time() - started > RESTART_PAUSE_SECONDS_MAX:
                pause = RESTART_PAUSE_SECONDS_MIN
            say(f"{plan.node_id} | ended by itself with code {code}, starts again in {pause:g} s")
            if await self._stopped_within(pause):
                return code
            pause = min(2 * pause, RESTART_PAUSE_SECONDS_MAX)

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._is_to_stop.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _serve(self, plan: SupervisedNode) -> int:
        """One node from its start to its end; its exit code."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _PROGRAM,
            *plan.arguments,
            # Ends with this process, which is how the node learns of it.
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C at a terminal goes to the supervisor alone, which tells the nodes.
            start_new_session=True,
        )
        self._nodes[plan.node_id] = process
        if self._is_to_stop.is_set():
            # The signal came while the node was being started.
            process.terminate()
        assert process.stderr is not None
        async for line in process.stderr:
            text = line.decode(errors="replace").rstrip()
            say(f"{plan.node_id} | {text}")
            if text.startswith("ready "):
                self._ready[plan.node_id].set()
        return await process.wait()
