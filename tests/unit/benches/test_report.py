"""What a run says: tables, Markdown, JSON and plots, from made-up figures."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benches import plots, report
from benches.brokers import KAA, KAFKA, KAFKA_SMALL
from benches.cells import find
from benches.histogram import Latencies
from benches.runner import Outcome, Results
from benches.scale import QUICK
from benches.stage import Run
from benches.timebox import TimeBox

LIMIT = {
    "recv+pwrite": {"mb_per_second": 2000.0, "cpu_seconds_per_gb": 0.4},
    "sendfile": {"mb_per_second": 3000.0, "cpu_seconds_per_gb": 0.2},
}


def _run(factor: float, *, share: float = 0.5) -> Run:
    latencies = Latencies(100 * factor + number for number in range(200))
    figures = {
        "mb_per_second": 100 * factor,
        "cpu_seconds_per_gb": 4 / factor,
        "resident_mb_max": 50.0,
        "driver_cpu_seconds": 1.0,
        "driver_busiest_share": share,
        **latencies.figures(),
    }
    return Run(figures, latencies.to_text())


@pytest.fixture
def results() -> Results:
    names = ["produce/librdkafka/baseline", "latency/one-in-flight", "transactions/1-records"]
    produce, latency, transactions, cut = (
        Outcome(cell) for cell in find([*names, "restart/clean"])
    )
    for outcome in (produce, latency):
        outcome.runs = {
            KAA: [_run(factor) for factor in (2.9, 3.0, 3.1)],
            KAFKA: [_run(factor, share=0.95) for factor in (0.9, 1.0, 1.1)],
            KAFKA_SMALL: [_run(0.8)],
        }
    transactions.reasons = {KAA: "kaa does not serve END_TXN"}
    box = TimeBox(10)
    box.cut("restart/clean", "needs about 54 s, 10 s were left")
    cut.reasons = {KAA: "the time box", KAFKA: "the time box"}
    memory = {KAA: [(number / 10, 50.0) for number in range(1_000)], KAFKA: [(0.0, 600.0)]}
    ordered = sorted((produce, latency, transactions, cut), key=lambda each: each.cell.name)
    return Results(QUICK, box, ordered, 61.0, memory)


def test_verdicts(results: Results) -> None:
    found = report.verdicts(results)["cells"]
    produce = found["produce/librdkafka/baseline"]
    assert (produce["verdict"], produce["ratio"]) == ("ahead", 3)
    assert produce["metrics"]["cpu_seconds_per_gb"]["beside kafka"]["verdict"] == "ahead"
    assert produce["metrics"]["mb_per_second"]["beside kafka-256m"]["verdict"] == "none"
    assert found["latency/one-in-flight"]["verdict"] == "behind"
    assert found["transactions/1-records"]["verdict"] == "none"
    assert "END_TXN" in found["transactions/1-records"]["reason"]
    assert found["restart/clean"]["cut"].startswith("needs about")


def test_the_table_of_costs_has_whole_names_in_a_narrow_terminal(results: Results) -> None:
    console = Console(width=150, file=io.StringIO(), record=True)
    report.print_table(results, console)
    costs = console.export_text().partition("What it cost")[2]
    for row in report.cost_rows(results):
        assert row[0] in costs
    assert "saturated by kafka" in costs


def test_tables_leave_nothing_out(results: Results) -> None:
    console = Console(width=200, file=io.StringIO(), record=True)
    report.print_table(results, console)
    text = console.export_text()
    for outcome in results.outcomes:
        assert outcome.cell.name in text
    assert "not measured: kaa does not serve END_TXN" in text
    assert "saturated by kafka" in text
    assert "1 ahead, 0 even, 1 behind, 2 without a verdict" in text
    assert "cut by the time box: restart/clean" in text


def test_files(results: Results, tmp_path: Path) -> None:
    report.keep(results, LIMIT, ["spark/stream"], tmp_path)
    content = json.loads((tmp_path / "quick.json").read_text())
    assert content["limit"] == LIMIT
    assert content["cut"] == results.box.cuts
    assert content["run"]["cores"]
    cell = next(each for each in content["cells"] if each["name"] == "latency/one-in-flight")
    assert len(cell["sides"][KAA]["rounds"]) == 3
    assert cell["sides"][KAA]["curve"][0][0] == 0
    assert cell["sides"][KAFKA]["driver_saturated"] == 3
    assert len(content["memory"][KAA]) <= report.MEMORY_POINTS_MAX
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())
    assert verdicts["left_out"] == ["spark/stream"]
    text = (tmp_path / "quick.md").read_text()
    assert "| produce/librdkafka/baseline | mb_per_second | MB/s | 300 ±10.00 |" in text
    assert "- not part of `quick`: spark/stream" in text
    assert "| recv+pwrite | 2,000 | 0.4 |" in text
    assert {line.count("|") for line in _first_table(text)} == {len(report.header(results)) + 1}


def _first_table(text: str) -> list[str]:
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    end = next(number for number in range(start, len(lines)) if not lines[number])
    return lines[start:end]


def test_plots(results: Results, tmp_path: Path) -> None:
    found = plots.draw(report.raw(results, LIMIT), tmp_path)
    assert [path.name for path in found] == ["throughput.png", "latency.png", "memory.png"]
    for path in found:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 150_000


def test_nothing_to_draw(tmp_path: Path) -> None:
    assert plots.draw({"run": {}, "cells": [], "memory": {}}, tmp_path) == []
