"""Nodes and clients reach time, sockets, files, threads and chance through what they are given.

Read in the sources: no module of the layers that run in the world imports what belongs to the
machine, but for a list of places with reasons. Tried: a node with clients lives through a crash in
the world while everything of the machine raises.
"""

from __future__ import annotations

import ast
import builtins
import os
import random
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaa.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.simulation.world.kernel import Kernel
from tests.simulation.world.network import SimNetwork
from tests.simulation.world.processes import ClientProcess, Node
from tests.simulation.world.scenario import SINGLE

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).resolve().parents[3] / "src" / "kaa"
PACKAGES = (
    "broker",
    "client",
    "controller",
    "coordinators",
    "handlers",
    "log",
    "net",
    "quorum",
    "replication",
    "serving",
    "tier",
)
MACHINE = {
    "concurrent.futures": {"ThreadPoolExecutor", "ProcessPoolExecutor"},
    "multiprocessing": None,
    "os": None,
    "random": {"SystemRandom", "random", "randrange", "choice", "shuffle", "randbytes"},
    "secrets": None,
    "select": None,
    "selectors": None,
    "shutil": None,
    "socket": None,
    "subprocess": None,
    "tempfile": None,
    "threading": {"Thread", "Timer"},
    "time": None,
    "uuid": {"uuid1", "uuid4"},
}
"""Modules of the machine, and the names in them that count; None for all."""

ALLOWED = {
    "broker/executors.py": "the threads that are handed in by default",
    "broker/node.py": "names the defaults: system randomness",
    "client/connection.py": "options of a socket where there is one; the nonce of SASL is a secret",
    "client/security/*": "files with keys and tokens are read when a client is made, not by nodes",
    "client/sync/*": "the client for scripts is a thread around the other one",
    "log/files.py": "the files that are handed in by default",
    "log/sim_files.py": "error texts of the twin",
    "net/network.py": "the sockets that are handed in by default",
    "net/pages.py": "asks about descriptors of real files; files in memory have none",
    "net/tls.py": "options of a socket that was handed in",
    "net/listener.py": "options of a socket that was handed in",
    "net/transport.py": "options of a socket that was handed in, and sendfile of real files",
    "serving/disk_space.py": "how full a real disk is, for an answer to operators",
}
"""Where something of the machine is named all the same, and why that does not matter."""


def machine_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name in MACHINE:
                    yield name.name
        elif isinstance(node, ast.ImportFrom) and node.module in MACHINE:
            counted = MACHINE[node.module]
            for name in node.names:
                if counted is None or name.name in counted:
                    yield f"{node.module}.{name.name}"


def is_allowed(relative: str) -> bool:
    return any(Path(relative).match(pattern) for pattern in ALLOWED)


def test_sources_do_not_reach_for_the_machine() -> None:
    problems = []
    used = set()
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            relative = path.relative_to(SOURCE).as_posix()
            found = sorted(machine_imports(path))
            if found and not is_allowed(relative):
                problems.append(f"{relative}: {', '.join(found)}; have it handed in")
            used |= {pattern for pattern in ALLOWED if found and Path(relative).match(pattern)}
    assert not problems, "\n".join(problems)
    assert used == set(ALLOWED), f"not needed any more: {sorted(set(ALLOWED) - used)}"


def test_sources_make_no_event_loop() -> None:
    """A loop is time and sockets; anyone who runs a node or a client brings it."""
    makers = ("asyncio.run(", "new_event_loop(", "asyncio.Runner(", "to_thread(")
    found = [
        f"{path.relative_to(SOURCE)}: {maker}"
        for package in PACKAGES
        for path in sorted((SOURCE / package).rglob("*.py"))
        if not is_allowed(path.relative_to(SOURCE).as_posix())
        for maker in makers
        if maker in path.read_text("utf-8")
    ]
    assert not found


class MachineUsedError(BaseException):
    """Not an Exception, so that nothing handles it by accident."""


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        def refused(*_: Any, **__: Any) -> Any:
            raise MachineUsedError(name)

        return refused

    targets: list[tuple[Any, str]] = [
        (time, "time"),
        (time, "time_ns"),
        (time, "monotonic"),
        (time, "monotonic_ns"),
        (time, "sleep"),
        (socket, "socket"),
        (socket, "getaddrinfo"),
        (socket, "gethostname"),
        (threading.Thread, "start"),
        (os, "urandom"),
        (os, "open"),
        (os, "pread"),
        (os, "preadv"),
        (os, "pwritev"),
        (os, "fsync"),
        (os, "listdir"),
        (builtins, "open"),
        (random.SystemRandom, "random"),
        (random.SystemRandom, "getrandbits"),
        (random.SystemRandom, "randbytes"),
    ]
    for owner, name in targets:
        monkeypatch.setattr(owner, name, refuse(name))


async def talk(process: ClientProcess, node: Node, group: str) -> list[bytes]:
    given: Any = {"random": process.random, "clock": process.clock}
    settings = {"bootstrap.servers": node.bootstrap}
    async with Admin(settings, **given) as admin:
        await admin.create_topics([NewTopic("t", 2, 1)])
    async with Producer({**settings, "transactional.id": group}, **given) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for number in range(4):
                await producer.send("t", b"%d" % number, partition=number % 2)
    reading = {
        **settings,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    values: list[bytes] = []
    async with Consumer(reading, **given) as consumer:
        consumer.subscribe(["t"])
        while len(values) < 4:
            for records in (await consumer.poll(1_000)).values():
                values += [record.value or b"" for record in records]
        await consumer.commit()
        assert await consumer.committed([TopicPartition("t", 0)])
    return values


def test_a_node_with_clients_needs_nothing_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> list[bytes]:
        kernel = Kernel(3)
        network = SimNetwork(kernel)
        node = Node(kernel, network, 1, (1,), 3, *SINGLE, "kaa.log.group.commit.enable=true")
        process = ClientProcess(kernel, network, "client-1", 4)
        node.start()
        values: list[bytes] = process.run(talk(process, node, "first"), 120)
        node.crash("torn")
        node.start()
        values += process.run(talk(process, node, "second"), 120)
        node.stop()
        process.close()
        return values

    # Once before, so that modules which load when they are needed have done so.
    expected = run()
    assert sorted(expected) == sorted([b"0", b"1", b"2", b"3"] * 3)
    with monkeypatch.context() as patching:
        forbid(patching)
        again = run()
    assert again == expected
