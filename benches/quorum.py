"""Three controllers of Kaa beside three of Apache Kafka: failover, changes, rest, a large snapshot.

Each system by itself, three nodes that are broker and voter both, equal settings, one client. The
leader is killed again and again while nothing else happens: what counts is the time until a topic
can be created at another node, most of which is the settings' time-outs. Changes are topics of one
partition. At rest nothing is asked of the nodes; what they use is for their heartbeats, fetches and
checks. The million records of the snapshot are settings of groups; a broker that joins afterwards
is sent it. How late the loops of Kaa's voters were meanwhile is the last figure.

All of it takes some ten minutes, and every figure is printed when it is known.
`KAA_BENCH_QUORUM_RECORDS` says how many records, `KAA_BENCH_QUORUM_KILLS` how many kills.
"""

from __future__ import annotations

import logging
import os
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benches.brokers import KAA, KAFKA
from benches.clusters import WAIT_SECONDS_MAX, Cluster, wait_until
from benches.figure import beside
from kaa.client.admin.admin import NewTopic
from kaa.client.errors import ClientError
from kaa.client.sync import Admin
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benches.figure import Figure, Measured

TOPICS: Final = 1_000
IDLE_SECONDS: Final = 20.0
SETTLED_SECONDS: Final = 5.0
# Of both systems where leaders are killed: a broker that comes back is taken when the session of
# its last life has ended, which is not what is measured.
SHORT_SESSIONS: Final = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
FAILOVER_SECONDS_MAX: Final = 120.0
RECORDS_PER_REQUEST: Final = 5_000
# About; a snapshot is written after every third of them.
RECORD_BYTES: Final = 60
ALTER_VERSION: Final = 1
GROUP: Final = 32
OBSERVER: Final = 9
_SNAPSHOT_BYTES: Final = "metadata.log.max.record.bytes.between.snapshots"


def run() -> list[Figure]:
    # That a node that was killed cannot be reached is not news.
    logging.getLogger("kaa.client").setLevel(logging.ERROR)
    kills = int(os.environ.get("KAA_BENCH_QUORUM_KILLS", "20"))
    records = int(os.environ.get("KAA_BENCH_QUORUM_RECORDS", "1000000"))
    found: dict[str, Measured] = {}
    for side in (KAA, KAFKA):
        report = Progress(side)
        _small(report)
        _failovers(report, kills)
        _large(report, records)
        found[side] = report.found
    return beside(found[KAA], found[KAFKA], KAFKA)


class Progress:
    """What was measured of one system, printed as it comes: it takes its time, and may be all that
    there will be.
    """

    def __init__(self, side: str) -> None:
        self.side = side
        self.found: Measured = {}
        self._began = time.monotonic()

    def add(self, name: str, unit: str, value: float) -> None:
        self.found[name, unit] = value
        self.say(f"{name}: {value:.3g} {unit}")

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:5.0f} s  {self.side}: {text}", flush=True)


def _small(report: Progress) -> None:
    """A cluster with little in it."""
    with tempfile.TemporaryDirectory(prefix="kaa-quorum-") as folder:
        cluster = Cluster(report.side, Path(folder))
        began = time.monotonic()
        with cluster, cluster.admin() as admin:
            _create(admin, ["first"])
            report.add("start of three nodes to the first topic", "s", time.monotonic() - began)
            time.sleep(SETTLED_SECONDS)
            before = cluster.processor_seconds_by_node()
            time.sleep(IDLE_SECONDS)
            after = cluster.processor_seconds_by_node()
            spent = [(after[each] - before[each]) / IDLE_SECONDS * 100 for each in before]
            report.add("processor at rest, three nodes", "% of a core", sum(spent))
            report.add("processor at rest, the busiest node", "% of a core", max(spent))
            memory = cluster.memory_mib_by_node().values()
            report.add("memory at rest, three nodes", "MiB", sum(memory))
            report.add("memory at rest, the largest node", "MiB", max(memory))
            for (name, unit), value in _changes(admin).items():
                report.add(name, unit, value)


def _changes(admin: Admin) -> Measured:
    times = []
    for number in range(TOPICS):
        began = time.monotonic()
        _create(admin, [f"one-{number}"])
        times.append((time.monotonic() - began) * 1e3)
    began = time.monotonic()
    _create(admin, [f"all-{number}" for number in range(TOPICS)])
    together = time.monotonic() - began
    times.sort()
    return {
        (f"{TOPICS} topics one by one", "s"): sum(times) / 1e3,
        (f"{TOPICS} topics in one request", "s"): together,
        ("one topic, p50", "ms"): statistics.median(times),
        ("one topic, p99", "ms"): times[len(times) * 99 // 100],
    }


def _create(admin: Admin, names: list[str]) -> None:
    outcome = admin.create_topics([NewTopic(name, 1, 1) for name in names])
    errors = [error for error in outcome.values() if error is not None]
    if errors:
        raise errors[0]


def _failovers(report: Progress, kills: int) -> None:
    """A cluster whose leader is killed again and again."""
    with tempfile.TemporaryDirectory(prefix="kaa-quorum-") as folder:
        times = []
        with Cluster(report.side, Path(folder), SHORT_SESSIONS) as cluster:
            for number in range(kills):
                times.append(_failover(cluster, number))
                report.say(f"kill {number + 1} of {kills}: {times[-1]:.3g} s to the next change")
        report.add("kill of the leader to the next change, median", "s", statistics.median(times))
        report.add("kill of the leader to the next change, worst", "s", max(times))


def _failover(cluster: Cluster, number: int) -> float:
    """Kills who leads; the seconds until a change is made by the next one."""
    with cluster.admin() as admin:
        leader = admin.describe_quorum().leader_id
    cluster.nodes[leader].kill()
    began = time.monotonic()
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "default.api.timeout.ms": "2000"}
    while True:
        try:
            with Admin(settings) as admin:
                _create(admin, [f"after-{number}-{time.monotonic_ns()}"])
        except ClientError:
            assert time.monotonic() - began < FAILOVER_SECONDS_MAX, "nobody leads"
            continue
        break
    taken = time.monotonic() - began
    cluster.start(leader)
    return taken


# --- very many records


def _large(report: Progress, records: int) -> None:
    count = f"{records:,} records"
    with tempfile.TemporaryDirectory(prefix="kaa-quorum-") as folder:
        settings = {_SNAPSHOT_BYTES: str(records * RECORD_BYTES // 3)}
        cluster = Cluster(report.side, Path(folder), settings)
        with cluster, _snapshot_writes(cluster) as writes:
            voters = list(cluster.nodes.values())
            for node in voters:
                # From here on it measures.
                node.loop_lag()
            began = time.monotonic()
            for start in range(0, records, RECORDS_PER_REQUEST):
                _alter_groups(cluster, start)
                if (start + RECORDS_PER_REQUEST) % (records // 4) < RECORDS_PER_REQUEST:
                    report.say(f"{start + RECORDS_PER_REQUEST:,} records are written")
            report.add(f"{count} of settings written", "s", time.monotonic() - began)
            wait_until(lambda: bool(writes))
            cluster.add(OBSERVER, "broker")
            began = time.monotonic()
            cluster.start(OBSERVER)
            report.add("a broker joins and loads them", "s", time.monotonic() - began)
            report.add("longest write of a snapshot", "s", max(writes))
            lags = [node.loop_lag().get("lag_max_ms", 0.0) for node in voters]
            if any(lags):
                report.add("longest wait of a voter's loop meanwhile", "ms", max(lags))


def _alter_groups(cluster: Cluster, start: int) -> None:
    change = AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="50000")
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=GROUP, resource_name=f"group-{start + number}", configs=[change]
            )
            for number in range(RECORDS_PER_REQUEST)
        ]
    )
    node = next(iter(cluster.nodes.values()))
    with RawClient(node.bootstrap_servers) as client:
        client.socket.settimeout(WAIT_SECONDS_MAX)
        answer = client.ask(request, ALTER_VERSION)
    assert {one.error_code for one in answer.responses} == {0}


@contextmanager
def _snapshot_writes(cluster: Cluster) -> Iterator[list[float]]:
    """How long each snapshot of the first node took, as its folder shows it."""
    place = next(iter(cluster.nodes.values())).data_dir / "__cluster_metadata-0"
    found: list[float] = []
    is_over = threading.Event()

    def watch() -> None:
        begun: dict[str, float] = {}
        while not is_over.wait(0.01):
            names = {path.name for path in place.glob("*.checkpoint.part")}
            now = time.monotonic()
            found.extend(now - begun.pop(name) for name in set(begun) - names)
            begun |= dict.fromkeys(names - set(begun), now)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()
