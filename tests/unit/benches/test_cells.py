"""The list of cells: what the yardstick promises is in it, and every cell can be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches.brokers import (
    BEFORE,
    HOST_BROKERS,
    KAA,
    KAFKA,
    KAFKA_SMALL,
    StartFailedError,
    make_node,
    use_checkout,
)
from benches.cells import BASELINE, CELLS, FACTORS, METRICS, Load, beside_checkout, find
from benches.loads import LOADS
from benches.scale import FULL, QUICK, Scale
from benches.verdicts import ROUNDS_MIN

NAMES = [cell.name for cell in CELLS]


def test_names_are_unique() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_every_cell_has_a_load_and_known_metrics() -> None:
    for cell in CELLS:
        assert cell.run in LOADS, cell.name
        assert set(cell.metrics) <= set(METRICS), cell.name
        assert cell.sides[:2] == (KAA, KAFKA), cell.name


def test_every_load_is_used() -> None:
    assert {cell.run for cell in CELLS} == set(LOADS)


def test_one_factor_at_a_time() -> None:
    assert Load(1024, "all", 6, "none") == BASELINE
    for name, load in FACTORS.items():
        differing = [
            field
            for field in ("record_bytes", "acks", "partitions", "compression")
            if getattr(load, field) != getattr(BASELINE, field)
        ]
        assert len(differing) == (name != "baseline"), name


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_throughput_with_every_factor(client: str) -> None:
    for name in FACTORS:
        assert f"produce/{client}/{name}" in NAMES
    for name in FACTORS.keys() - {"acks-0", "acks-1"}:
        assert f"consume/{client}/{name}" in NAMES


@pytest.mark.parametrize(
    "name",
    [
        "latency/one-in-flight",
        "latency/fixed-rate-1000",
        "latency/fixed-rate-20000",
        "latency/end-to-end",
        "latency/end-to-end-java",
        "catch-up/cold-while-producing",
        "group-commit/produce",
        "group-commit/one-in-flight",
        "groups/rebalance-classic-10",
        "groups/rebalance-classic-50",
        "groups/rebalance-consumer-10",
        "groups/rebalance-consumer-50",
        "groups/commits",
        "groups/restart-10000",
        "transactions/1-records",
        "transactions/10-records",
        "transactions/100-records",
        "host/produce",
        "host/consume",
        "host/commits",
        "host/transactions-10-records",
        "connections/idle-1000",
        "connections/idle-5000",
        "connections/active-500",
        "partitions/1000",
        "partitions/10000",
        "restart/clean",
        "restart/kill",
        "spark/read-1KiB",
        "spark/read-100B",
        "spark/read-1KiB-lz4",
        "spark/read-1KiB-zstd",
        "spark/stream",
        "spark/write",
        "spark/micro-batch",
    ],
)
def test_is_in_the_list(name: str) -> None:
    assert name in NAMES


def test_kafka_with_a_small_heap_is_measured_too() -> None:
    assert any(KAFKA_SMALL in cell.sides for cell in CELLS)


def test_cells_are_found_by_the_beginning_of_their_names() -> None:
    assert [cell.name for cell in find(["restart"])] == ["restart/clean", "restart/kill"]
    assert [cell.name for cell in find(["restart/kill"])] == ["restart/kill"]
    assert len(find(["produce", "produce/librdkafka"])) == 2 * len(FACTORS)
    with pytest.raises(LookupError, match="rest"):
        find(["rest"])


@pytest.mark.parametrize(("scale", "minutes"), [(QUICK, 15), (FULL, 180)])
def test_scales_keep_their_promises(scale: Scale, minutes: float) -> None:
    assert scale.box_seconds < minutes * 60
    assert scale.rounds >= ROUNDS_MIN


def test_full_has_the_data_of_the_restart_cell() -> None:
    assert FULL.restart_bytes == 5 * 1024**3


def test_records_of_a_run() -> None:
    assert QUICK.records(1024) == QUICK.bytes_max // 1024
    assert QUICK.records(1) == QUICK.records_max
    assert QUICK.records(10**9) == 100


def test_another_checkout_takes_the_place_of_kafka() -> None:
    cells = beside_checkout(find(["group-commit/produce", "latency/one-in-flight"]))
    assert {cell.sides for cell in cells} == {(KAA, BEFORE)}
    for cell in cells:
        assert cell.settings[BEFORE] == cell.settings.get(KAA, {})


def test_a_host_of_two_brokers_stands_beside_one_broker_of_kafka(tmp_path: Path) -> None:
    for cell in find(["host"]):
        host = make_node(KAA, tmp_path / cell.name, cell.settings[KAA])
        assert host.brokers_wanted == 2
        assert HOST_BROKERS not in host.settings
        assert "host start" in " ".join(host.command())
        peer = make_node(KAFKA, tmp_path / cell.name, cell.settings.get(KAFKA, {}))
        assert peer.brokers_wanted == 1


def test_a_checkout_without_an_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartFailedError, match="has no environment"):
        use_checkout(tmp_path)
