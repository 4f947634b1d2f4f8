"""Three controllers of Kaa beside three of Apache Kafka: failover, changes, rest, a large snapshot.

Each system by itself, three nodes that are broker and voter both, equal settings, one client. The
leader is killed again and again while nothing else happens: what counts is the time until a topic
can be created at another node, most of which is the settings' time-outs. Changes are topics of one
partition. At rest nothing is asked of the nodes; what they use is for their heartbeats, fetches and
checks. The million records of the snapshot are settings of groups; a broker that joins afterwards
is sent it. How late Kaa's loops were meanwhile is the last figure.

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
from benches.clusters import Cluster, wait_until
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
    kaa, kafka = ({**_small(side, kills), **_large(side, records)} for side in (KAA, KAFKA))
    return beside(kaa, kafka, KAFKA)


def _small(side: str, kills: int) -> Measured:
    """A cluster with little in it."""
    found: Measured = {}
    with tempfile.TemporaryDirectory(prefix="kaa-quorum-") as folder:
        cluster = Cluster(side, Path(folder))
        began = time.monotonic()
        with cluster, cluster.admin() as admin:
            _create(admin, ["first"])
            found["start of three nodes to the first topic", "s"] = time.monotonic() - began
            time.sleep(SETTLED_SECONDS)
            spent = cluster.processor_seconds()
            time.sleep(IDLE_SECONDS)
            spent = cluster.processor_seconds() - spent
            found["processor at rest, three nodes", "% of a core"] = spent / IDLE_SECONDS * 100
            found["memory at rest, three nodes", "MiB"] = cluster.memory_mib()
            found |= _changes(admin)
            times = [_failover(cluster, number) for number in range(kills)]
            found["kill of the leader to the next change, median", "s"] = statistics.median(times)
            found["kill of the leader to the next change, worst", "s"] = max(times)
    return found


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
            continue
        break
    taken = time.monotonic() - began
    cluster.start(leader)
    return taken


# --- very many records


def _large(side: str, records: int) -> Measured:
    count = f"{records:,} records"
    found: Measured = {}
    with tempfile.TemporaryDirectory(prefix="kaa-quorum-") as folder:
        settings = {_SNAPSHOT_BYTES: str(records * RECORD_BYTES // 3)}
        cluster = Cluster(side, Path(folder), settings)
        with cluster, _snapshot_writes(cluster) as writes:
            began = time.monotonic()
            for start in range(0, records, RECORDS_PER_REQUEST):
                _alter_groups(cluster, start)
            found[f"{count} of settings written", "s"] = time.monotonic() - began
            wait_until(lambda: bool(writes))
            cluster.add(OBSERVER, "broker")
            began = time.monotonic()
            cluster.start(OBSERVER)
            found["a broker joins and loads them", "s"] = time.monotonic() - began
            found["longest write of a snapshot", "s"] = max(writes)
            lags = [node.loop_lag().get("lag_max_ms") for node in cluster.nodes.values()]
            if all(lags):
                found["longest wait of a loop meanwhile", "ms"] = max(filter(None, lags))
    return found


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
