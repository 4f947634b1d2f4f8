"""The fixed list of what is measured: written before measuring, and nothing is taken out of it.

A cell is one load with one factor changed around a baseline: records of 1 KiB, acks=all, six
partitions, no compression. Its name is a path, and `scripts/bench` takes any beginning of it. Its
first metric decides the verdict; the others are reported and judged beside it.

The order is that of a run: where the time box cuts, it cuts at the end. Cells that `quick` leaves
out are named in its report.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from benches.brokers import BEFORE, HOST_BROKERS, KAA, KAFKA, KAFKA_SMALL
from kaa.wire.registry import ApiKey

BOTH: Final = (KAA, KAFKA)
ALL: Final = (KAA, KAFKA, KAFKA_SMALL)


@dataclass(frozen=True, slots=True)
class Metric:
    unit: str
    higher_is_better: bool = False


METRICS: Final = {
    "mb_per_second": Metric("MB/s", higher_is_better=True),
    "records_per_second": Metric("records/s", higher_is_better=True),
    "requests_per_second": Metric("requests/s", higher_is_better=True),
    "commits_per_second": Metric("commits/s", higher_is_better=True),
    "transactions_per_second": Metric("transactions/s", higher_is_better=True),
    "connections_per_second": Metric("connections/s", higher_is_better=True),
    "kb_per_connection": Metric("kB each"),
    "p50_ms": Metric("ms"),
    "p99_ms": Metric("ms"),
    "p99.9_ms": Metric("ms"),
    "tool_mean_ms": Metric("ms"),
    "tool_p99_ms": Metric("ms"),
    "form_seconds": Metric("s"),
    "leave_seconds": Metric("s"),
    "create_seconds": Metric("s"),
    "start_seconds": Metric("s"),
    "batch_seconds": Metric("s"),
    "cpu_seconds_per_gb": Metric("CPU s/GB"),
    "cpu_seconds_per_million_requests": Metric("CPU s/M requests"),
    "broker_cpu_seconds": Metric("CPU s"),
    "resident_mb_max": Metric("MB"),
    "context_switches": Metric("switches"),
}
# Judged beside the first metric of every cell that has them.
COMMON: Final = ("cpu_seconds_per_gb", "cpu_seconds_per_million_requests", "resident_mb_max")


@dataclass(frozen=True, slots=True)
class Load:
    record_bytes: int = 1024
    acks: str = "all"
    partitions: int = 6
    compression: str = "none"


@dataclass(frozen=True, slots=True)
class Cell:
    name: str
    # The function of `benches.loads` that runs it.
    run: str
    # The first one decides.
    metrics: tuple[str, ...]
    load: Load = field(default_factory=Load)
    options: dict[str, Any] = field(default_factory=dict)
    sides: tuple[str, ...] = BOTH
    # Settings of the brokers that differ from the others; by side.
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    needs: tuple[ApiKey, ...] = ()
    is_quick: bool = True
    # For the time box, before anything was measured: one run on one side, in `quick`.
    estimate_seconds: float = 3.0


BASELINE: Final = Load()
# One factor at a time.
FACTORS: Final = {
    "baseline": BASELINE,
    "record-100B": replace(BASELINE, record_bytes=100),
    "record-100KiB": replace(BASELINE, record_bytes=100 * 1024),
    "acks-0": replace(BASELINE, acks="0"),
    "acks-1": replace(BASELINE, acks="1"),
    "partitions-1": replace(BASELINE, partitions=1),
    "partitions-100": replace(BASELINE, partitions=100),
    "lz4": replace(BASELINE, compression="lz4"),
    "zstd": replace(BASELINE, compression="zstd"),
}
# A consumer does not see how a record was acknowledged.
_CONSUMED: Final = {name: load for name, load in FACTORS.items() if load.acks == "all"}
# `quick` takes Kafka's own tools, each a JVM, for these alone.
_JAVA_QUICK: Final = {"baseline", "record-100B"}
_GROUP_COMMIT: Final = {
    KAA: {"kaa.log.group.commit.enable": "true"},
    KAFKA: {"log.flush.interval.messages": "1"},
}
_TRANSACTIONS: Final = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN)


def _throughput(client: str) -> list[Cell]:
    found = []
    for verb, factors in (("produce", FACTORS), ("consume", _CONSUMED)):
        found += [
            Cell(
                f"{verb}/{client}/{name}",
                f"{verb}_{client}",
                ("mb_per_second",),
                load,
                sides=ALL if name == "baseline" and client == "librdkafka" else BOTH,
                is_quick=client == "librdkafka" or name in _JAVA_QUICK,
                estimate_seconds=2.5 if client == "librdkafka" else 4.0,
            )
            for name, load in factors.items()
        ]
    return found


def _latency() -> list[Cell]:
    single = replace(BASELINE, partitions=1)
    return [
        Cell(
            "latency/one-in-flight",
            "one_in_flight",
            ("p50_ms", "p99_ms", "p99.9_ms"),
            sides=ALL,
        ),
        *(
            Cell(
                f"latency/fixed-rate-{rate}",
                "fixed_rate",
                ("p99_ms", "p50_ms", "p99.9_ms"),
                options={"rate": rate},
                estimate_seconds=4.0,
            )
            for rate in (1_000, 20_000)
        ),
        Cell(
            "latency/end-to-end",
            "end_to_end",
            ("p99_ms", "p50_ms", "p99.9_ms"),
            single,
            {"rate": 1_000},
            estimate_seconds=4.0,
        ),
        Cell(
            "latency/end-to-end-java",
            "end_to_end_java",
            ("tool_mean_ms", "tool_p99_ms"),
            single,
            estimate_seconds=4.0,
        ),
        Cell(
            "catch-up/cold-while-producing",
            "catch_up",
            ("mb_per_second", "p99_ms", "p99.9_ms"),
            options={"rate": 1_000},
            estimate_seconds=6.0,
        ),
        Cell(
            "group-commit/produce",
            "produce_librdkafka",
            ("mb_per_second",),
            settings=_GROUP_COMMIT,
            options={"share": 0.25},
            estimate_seconds=6.0,
        ),
        Cell(
            "group-commit/one-in-flight",
            "one_in_flight",
            ("p50_ms", "p99_ms", "p99.9_ms"),
            settings=_GROUP_COMMIT,
        ),
    ]


def _coordination() -> list[Cell]:
    found = [
        Cell(
            f"groups/rebalance-{protocol}-{members}",
            f"rebalance_{protocol}",
            ("form_seconds", "leave_seconds"),
            replace(BASELINE, partitions=2 * members),
            {"members": members},
            needs=(ApiKey.CONSUMER_GROUP_HEARTBEAT,) if protocol == "consumer" else (),
        )
        for protocol in ("classic", "consumer")
        for members in (10, 50)
    ]
    found.append(
        Cell(
            "groups/commits",
            "commits",
            ("commits_per_second", "p99_ms"),
            options={"connections": 10},
        )
    )
    found += [
        Cell(
            f"transactions/{count}-records",
            "transactions",
            ("transactions_per_second", "p99_ms"),
            options={"records_each": count},
            needs=_TRANSACTIONS,
        )
        for count in (1, 10, 100)
    ]
    return found


def _host() -> list[Cell]:
    """Every core of a machine with two: two brokers of Kaa beside one JVM of Kafka, which has a
    thread for each.
    """
    common = Cell(
        "host/produce",
        "produce_librdkafka",
        ("mb_per_second",),
        settings={KAA: {HOST_BROKERS: "2"}},
        is_quick=False,
        estimate_seconds=6.0,
    )
    return [
        common,
        replace(common, name="host/consume", run="consume_librdkafka"),
        replace(
            common,
            name="host/commits",
            run="commits",
            metrics=("commits_per_second", "p99_ms"),
            options={"connections": 10},
        ),
        replace(
            common,
            name="host/transactions-10-records",
            run="transactions",
            metrics=("transactions_per_second", "p99_ms"),
            options={"records_each": 10},
            needs=_TRANSACTIONS,
        ),
    ]


def _size() -> list[Cell]:
    idle = [
        Cell(
            f"connections/idle-{count}",
            "connections_idle",
            ("kb_per_connection", "connections_per_second"),
            options={"connections": count},
            estimate_seconds=6.0 + count / 1_500,
        )
        for count in (1_000, 5_000)
    ]
    active = Cell(
        "connections/active-500",
        "connections_active",
        ("p99_ms", "p50_ms", "p99.9_ms"),
        options={"connections": 500, "rate": 2_000},
        estimate_seconds=4.0,
    )
    partitions = [
        Cell(
            f"partitions/{count}",
            "partitions",
            ("start_seconds", "create_seconds"),
            options={"partitions": count},
            is_quick=count == 1_000,
            estimate_seconds=9.0 if count == 1_000 else 60.0,
        )
        for count in (1_000, 10_000)
    ]
    restart = [
        Cell(f"restart/{how}", f"restart_{how}", ("start_seconds",), estimate_seconds=9.0)
        for how in ("clean", "kill")
    ]
    groups = Cell(
        "groups/restart-10000",
        "restart_groups",
        ("start_seconds",),
        replace(BASELINE, partitions=1),
        {"groups": 10_000},
        estimate_seconds=12.0,
    )
    return [*idle, active, partitions[0], *restart, groups, partitions[1]]


def _spark() -> list[Cell]:
    found = [
        Cell(
            f"spark/read-{name}",
            "spark",
            ("mb_per_second", "records_per_second"),
            replace(BASELINE, record_bytes=size, compression=compression),
            {"query": "read"},
            is_quick=False,
            estimate_seconds=25.0,
        )
        for name, size, compression in (
            ("1KiB", 1024, "none"),
            ("100B", 100, "none"),
            ("1KiB-lz4", 1024, "lz4"),
            ("1KiB-zstd", 1024, "zstd"),
        )
    ]
    for query, metrics in (
        ("stream", ("mb_per_second", "records_per_second")),
        ("write", ("mb_per_second", "records_per_second")),
        ("micro-batch", ("batch_seconds",)),
    ):
        found.append(
            Cell(
                f"spark/{query}",
                "spark",
                metrics,
                options={"query": query},
                is_quick=False,
                estimate_seconds=25.0,
            )
        )
    return found


CELLS: Final = (
    *_throughput("librdkafka"),
    *_latency(),
    *_coordination(),
    *_host(),
    *_size(),
    *_throughput("java"),
    *_spark(),
)


def beside_checkout(cells: list[Cell]) -> list[Cell]:
    """The same cells with another checkout of Kaa in the place of Kafka, and its settings."""
    return [
        replace(
            cell,
            sides=(KAA, BEFORE),
            settings=cell.settings | {BEFORE: cell.settings.get(KAA, {})},
        )
        for cell in cells
    ]


def find(names: list[str]) -> list[Cell]:
    """The cells whose names begin so; LookupError for a name that none has."""
    for name in names:
        if not any(_is_under(cell.name, name) for cell in CELLS):
            raise LookupError(name)
    return [cell for cell in CELLS if any(_is_under(cell.name, name) for name in names)]


def _is_under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix.rstrip('/')}/")
