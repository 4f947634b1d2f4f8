"""Where cells run: the brokers that are up, the topics that are filled, and the measuring.

Brokers with the same settings serve all the cells that want them, side by side: the one that is not
asked just idles. They are started when first wanted and warmed up by a throw-away load, so that no
cell pays for a cold JVM or for a codec that is compiled at first use.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from benches.brokers import make_node
from benches.cells import Load
from benches.driving import Driver, create_topic
from benches.histogram import Latencies
from benches.lateness import Lateness
from benches.sampling import SATURATED_SHARE, Sampler, usage_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.brokers import BrokerNode
    from benches.scale import Scale

# So much that a JVM has compiled what it runs.
_WARM_UP_RECORDS = 150_000


@dataclass(slots=True)
class Run:
    """What one run of a cell on one side gave."""

    figures: dict[str, float]
    # An HDR histogram as text, if single requests were timed.
    latencies: str = ""

    @property
    def is_driver_saturated(self) -> bool:
        return self.figures.get("driver_busiest_share", 0.0) >= SATURATED_SHARE


@dataclass(slots=True)
class Filled:
    """A topic with records to read."""

    topic: str
    count: int


@dataclass
class Stage:
    folder: Path
    scale: Scale
    _stack: ExitStack = field(default_factory=ExitStack)
    _nodes: dict[tuple[str, tuple[tuple[str, str], ...]], BrokerNode] = field(default_factory=dict)
    _filled: dict[tuple[int, Load, int], Filled] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)
    _lateness: Lateness = field(default_factory=Lateness)
    _count: int = 0
    # Brokers that a kind of cell keeps for its later rounds.
    kept: dict[str, BrokerNode] = field(default_factory=dict)
    # By side: seconds since the start and megabytes.
    memory: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._stack.enter_context(self._lateness)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    # --- brokers

    def node(self, side: str, settings: dict[str, str]) -> BrokerNode:
        """The broker that is shared by all who want it with these settings."""
        key = (side, tuple(sorted(settings.items())))
        node = self._nodes.get(key)
        if node is None or not node.is_running:
            node = self.own_node(side, settings)
            self._nodes[key] = node
            self.warm_up(node)
        return node

    def own_node(self, side: str, settings: dict[str, str]) -> BrokerNode:
        """A fresh broker, up until it is ended or the stage is left."""
        node = make_node(side, self.folder / self.unique("node"), settings)
        return self._stack.enter_context(node)

    def warm_up(self, node: BrokerNode) -> None:
        topic = self.topic(node, Load())
        for task in ("produce", "consume"):
            self.drive(node, "librdkafka", task, Load(), topic, count=_WARM_UP_RECORDS)
        if node.brokers_wanted == 1:
            # This driver has one connection, and knows one broker.
            more = {"acks": -1, "seconds": 1.0}
            self.drive(node, "produce", "one_in_flight", Load(), topic, **more)

    # --- topics

    def unique(self, name: str) -> str:
        self._count += 1
        return f"{name}-{self._count}"

    def topic(self, node: BrokerNode, load: Load) -> str:
        name = self.unique("bench")
        create_topic(node.bootstrap_servers, name, load.partitions)
        return name

    def filled(self, node: BrokerNode, load: Load, size: int) -> Filled:
        """A topic with about so many bytes, made once for each broker."""
        key = (node.pid, load, size)
        found = self._filled.get(key)
        if found is None:
            topic, count = self.topic(node, load), self.scale.records(load.record_bytes, size)
            result = self.drive(node, "librdkafka", "produce", load, topic, count=count)
            found = self._filled[key] = Filled(topic, int(result["records"]))
        return found

    def task(self, node: BrokerNode, load: Load, topic: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": node.bootstrap_servers,
            "topic": topic,
            "record_bytes": load.record_bytes,
            "partitions": load.partitions,
            "acks": load.acks,
            "compression": load.compression,
            "seconds_max": self.scale.seconds_max * 3,
            **more,
        }

    def driver(self, module: str, name: str, task: dict[str, Any]) -> Driver:
        return Driver(module, name, task, self.scale.driver_seconds_max)

    def drive(
        self, node: BrokerNode, module: str, name: str, load: Load, topic: str, **more: Any
    ) -> dict[str, Any]:
        """A load that is not measured."""
        driver = self.driver(module, name, self.task(node, load, topic, **more))
        driver.begin()
        return driver.result()

    # --- measuring

    def measure(self, node: BrokerNode, work: Callable[[Sampler], dict[str, Any]]) -> Run:
        """Runs `work` and adds what it cost the broker."""
        node.loop_lag()
        self._lateness.take()
        pids = node.pids
        before = usage_of(pids)
        started = time.monotonic()
        with Sampler(brokers=pids) as sampler:
            result = work(sampler)
        seconds = time.monotonic() - started
        after = usage_of(pids)
        latencies = result.pop("latencies", "")
        figures = result | (Latencies.from_text(latencies).figures() if latencies else {})
        cpu = after.cpu_seconds - before.cpu_seconds
        figures |= {
            "wall_seconds": seconds,
            "broker_cpu_seconds": cpu,
            "resident_mb": after.resident_bytes / 1e6,
            "resident_mb_max": max(sampler.resident_bytes_max, after.resident_bytes) / 1e6,
            "broker_waited_seconds": max(0.0, after.waited_seconds - before.waited_seconds),
            "context_switches": after.context_switches - before.context_switches,
            "descriptors": after.descriptors,
            "driver_busiest_share": sampler.busiest_thread_share,
            **self._lateness.take(),
            **node.loop_lag(),
        }
        if figures.get("bytes"):
            figures["cpu_seconds_per_gb"] = cpu / figures["bytes"] * 1e9
        if figures.get("requests"):
            figures["cpu_seconds_per_million_requests"] = cpu / figures["requests"] * 1e6
        offset = started - self._started
        self.memory.setdefault(node.side, []).extend(
            (round(offset + at, 1), size / 1e6) for at, size in sampler.memory
        )
        return Run(figures, latencies)

    def measure_driver(
        self, node: BrokerNode, module: str, name: str, load: Load, topic: str, **more: Any
    ) -> Run:
        """One driver from the moment it has connected."""
        driver = self.driver(module, name, self.task(node, load, topic, **more))

        def work(sampler: Sampler) -> dict[str, Any]:
            sampler.watch(driver.pid)
            driver.begin()
            return driver.result()

        return self.measure(node, work)
