"""Groups whose members come, leave, die and pause, and what must be true of them all the while.

A `Driver` runs many members of one client library in one process. `churn` does things to them at
random; every now and then it waits until the rebalance has ended: every member has partitions, and
every partition has a member. In the end every record has been read, and no partition ever had two
owners at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

from tests.clients.groups import Audit, Feed, LibrdkafkaMember, wait_for
from tests.clients.groups_process import LibrdkafkaProcess
from tests.clients.groups_python import AiokafkaMember, KafkaPythonMember
from tests.clients.librdkafka import create_topic
from tests.oracle import Oracle
from tests.oracle.environment import wait_until
from tests.support.pace import PATIENCE_SECONDS


class Driver(Protocol):
    """Members of one library, by name."""

    def start(self, name: str) -> None: ...

    def leave(self, name: str) -> None: ...

    def crash(self, name: str) -> None:
        """Ends without a word to the coordinator."""
        ...

    def mortals(self, alive: list[str]) -> list[str]:
        """Which members can crash; there is at least one."""
        ...

    def pause(self, name: str, seconds: float) -> None:
        """Does not poll for a while."""
        ...

    def shares(self) -> Mapping[str, int]:
        """How many partitions each member owns."""
        ...

    def read(self) -> set[bytes]: ...

    def breaches(self) -> list[str]: ...


class JavaDriver:
    """Java consumers, within the JVM of the oracle; their audit is there too."""

    def __init__(self, oracle: Oracle, bootstrap: str, topic: str, protocol: str) -> None:
        self._jvm = oracle.jvm
        self._topic = topic
        self._audit = f"{topic} {protocol}"
        self._properties = {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
        if protocol == "classic":
            self._properties |= {"session.timeout.ms": "6000", "heartbeat.interval.ms": "300"}

    def _call(self, operation: str, **item: Any) -> Any:
        return self._jvm.call_one(f"members.{operation}", {"audit": self._audit, **item})

    def start(self, name: str) -> None:
        self._call("start", name=name, topic=self._topic, properties=self._properties)

    def leave(self, name: str) -> None:
        self._call("end", name=name, leaves=True)

    def crash(self, name: str) -> None:
        self._call("end", name=name, leaves=False)

    def mortals(self, alive: list[str]) -> list[str]:
        return alive

    def pause(self, name: str, seconds: float) -> None:
        self._call("pause", name=name, ms=int(seconds * 1000))

    def shares(self) -> Mapping[str, int]:
        shares: dict[str, int] = self._call("state")["shares"]
        return shares

    def read(self) -> set[bytes]:
        return {value.encode() for value in self._call("state")["read"]}

    def breaches(self) -> list[str]:
        return list(self._call("state")["breaches"])


class ThreadDriver:
    """Members with a thread each."""

    def __init__(self, make: Callable[[Audit, str], Any]) -> None:
        self._audit = Audit()
        self._make = make
        self._members: dict[str, Any] = {}

    def start(self, name: str) -> None:
        self._members[name] = self._make(self._audit, name)

    def leave(self, name: str) -> None:
        self._members.pop(name).leave()

    def crash(self, name: str) -> None:
        self._members.pop(name).crash()

    def mortals(self, alive: list[str]) -> list[str]:
        return alive

    def pause(self, name: str, seconds: float) -> None:
        self._members[name].pause(seconds)

    def shares(self) -> Mapping[str, int]:
        return self._audit.share()

    def read(self) -> set[bytes]:
        return set(self._audit.read)

    def breaches(self) -> list[str]:
        return self._audit.breaches


class LibrdkafkaDriver(ThreadDriver):
    """Members with a thread each, but for every fourth, which has a process and can be killed."""

    def __init__(self, bootstrap: str, topic: str, **settings: str) -> None:
        super().__init__(self._make_one)
        self._bootstrap, self._topic, self._settings = bootstrap, topic, settings

    def _make_one(self, audit: Audit, name: str) -> LibrdkafkaMember | LibrdkafkaProcess:
        mortals = len(self.mortals(list(self._members)))
        kind = LibrdkafkaProcess if 4 * mortals <= len(self._members) else LibrdkafkaMember
        return kind(audit, self._bootstrap, self._topic, name, **self._settings)

    def mortals(self, alive: list[str]) -> list[str]:
        return [name for name in alive if isinstance(self._members[name], LibrdkafkaProcess)]


class AiokafkaDriver:
    """Members with a task each, on a loop in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._audit = Audit()
        self._bootstrap, self._topic = bootstrap, topic
        self._members: dict[str, AiokafkaMember] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def start(self, name: str) -> None:
        self._run(self._start(name))

    async def _start(self, name: str) -> None:
        member = AiokafkaMember(self._audit, self._bootstrap, self._topic, name)
        self._members[name] = member
        await member.start()

    def leave(self, name: str) -> None:
        self._run(self._members.pop(name).leave())

    def crash(self, name: str) -> None:
        self._run(self._members.pop(name).die())
        self._audit.gone(name)

    def mortals(self, alive: list[str]) -> list[str]:
        return alive

    def pause(self, name: str, seconds: float) -> None:
        self._members[name].pause_seconds = seconds

    def shares(self) -> Mapping[str, int]:
        return self._audit.share()

    def read(self) -> set[bytes]:
        return set(self._audit.read)

    def breaches(self) -> list[str]:
        return self._audit.breaches

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def driver_of(kind: str, oracle: Oracle | None, bootstrap: str, topic: str) -> Driver:
    """A driver by its name: the library, and the protocol or assignor where it has a choice."""
    library, _, protocol = kind.partition(" ")
    if library == "java":
        assert oracle is not None
        return JavaDriver(oracle, bootstrap, topic, protocol)
    if library == "librdkafka":
        settings = {"group_id": topic, "group_protocol": protocol}
        if protocol not in {"consumer", "classic"}:
            settings |= {"group_protocol": "classic", "partition_assignment_strategy": protocol}
        return LibrdkafkaDriver(bootstrap, topic, **settings)
    if library == "kafka-python":
        return ThreadDriver(lambda audit, name: KafkaPythonMember(audit, bootstrap, topic, name))
    assert library == "aiokafka"
    return AiokafkaDriver(bootstrap, topic)


def churn(
    driver: Driver, bootstrap: str, topic: str, *, members: int, rounds: int, random: Random
) -> None:
    """See the module's text. There are at least as many partitions as members."""
    partitions = members + members // 4 + 2
    create_topic(bootstrap, topic, partitions)
    feed = Feed(bootstrap, topic, 0.005)
    alive: list[str] = []
    started = 0

    def start(count: int) -> None:
        nonlocal started
        for _ in range(count):
            alive.append(f"m{started}")
            driver.start(alive[-1])
            started += 1

    def disturb() -> None:
        some = random.sample(alive, max(1, members // 4))
        what = random.choice(["leave", "crash", "pause"])
        if what == "crash":
            mortals = driver.mortals(alive)
            some = [name for name in some if name in mortals] or mortals[:1]
        for name in some:
            if what == "pause":
                driver.pause(name, random.uniform(0.5, 2.0))
            else:
                alive.remove(name)
                getattr(driver, what)(name)

    def is_settled() -> bool:
        shares = driver.shares()
        return set(shares) == set(alive) and sum(shares.values()) == partitions

    def settle() -> None:
        assert wait_until(is_settled, PATIENCE_SECONDS), (
            f"{sorted(alive)} have {dict(driver.shares())}"
        )

    try:
        start(1)
        settle()
        start(members - 1)
        settle()
        for _ in range(rounds):
            disturb()
            start(members - len(alive))
            settle()
        sent = feed.stop()
        wait_for(lambda: driver.read() >= sent)
    finally:
        feed.stop()
        for name in alive:
            driver.leave(name)
    assert driver.breaches() == []
