"""The order of runs, the time box, and sides that cannot run a cell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benches import runner
from benches.brokers import KAA, KAFKA
from benches.cells import Cell, find
from benches.driving import DriverFailedError
from benches.loads import LOADS
from benches.scale import QUICK
from benches.stage import Run, Stage
from benches.verdicts import ROUNDS_MAX

CELL = replace(find(["latency/fixed-rate-1000"])[0], estimate_seconds=0.01)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_PAUSE_SECONDS", 0)


def _load(monkeypatch: pytest.MonkeyPatch, *, failing: str = "", theirs: float = 2.0) -> None:
    def load(_stage: Stage, _cell: Cell, side: str) -> Run:
        if side == failing:
            raise DriverFailedError("a long story\nits last line")
        return Run({"p99_ms": 1.0 if side == KAA else theirs})

    monkeypatch.setitem(LOADS, CELL.run, load)


def test_sides_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch)
    told: list[tuple[int, str]] = []
    results = runner.run_cells([CELL], QUICK, lambda _, number, side: told.append((number, side)))
    assert told == [(0, KAA), (0, KAFKA), (1, KAFKA), (1, KAA), (2, KAA), (2, KAFKA)]
    (outcome,) = results.outcomes
    assert outcome.values(KAA, "p99_ms") == [1.0] * 3
    assert results.box.cuts == {}


def test_even_cells_get_more_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch, theirs=1.0)
    cells = [CELL, replace(CELL, name="second")]
    outcomes = runner.run_cells(cells, QUICK, lambda *_: None).outcomes
    assert [len(outcome.runs[KAA]) for outcome in outcomes] == [ROUNDS_MAX] * 2


def test_peer_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch, failing=KAFKA)
    (outcome,) = runner.run_cells([CELL], QUICK, lambda *_: None).outcomes
    assert outcome.reasons == {KAFKA: "its last line"}
    assert len(outcome.runs[KAA]) == 3
    assert outcome.spread(KAFKA, "p99_ms") is None


def test_kaa_that_fails_ends_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch, failing=KAA)
    (outcome,) = runner.run_cells([CELL], QUICK, lambda *_: None).outcomes
    assert outcome.reasons == {KAA: "its last line"}
    assert len(outcome.runs[KAFKA]) == 1


def test_cell_that_does_not_fit_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch)
    long = replace(CELL, estimate_seconds=100.0)
    results = runner.run_cells([long], QUICK, lambda *_: None, box_seconds=30)
    (outcome,) = results.outcomes
    assert outcome.runs == {}
    assert outcome.reasons == {KAA: "the time box", KAFKA: "the time box"}
    assert results.box.cuts[CELL.name].startswith("needs about 600 s")


def test_interrupted_run_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    _load(monkeypatch)

    def told(cell: Cell, number: int, side: str) -> None:
        if cell.name == "second":
            raise KeyboardInterrupt

    cells = [CELL, replace(CELL, name="second"), replace(CELL, name="third")]
    results = runner.run_cells(cells, QUICK, told)
    assert [len(outcome.runs) for outcome in results.outcomes] == [2, 0, 0]
    assert results.box.cuts == {"second": "interrupted", "third": "interrupted"}
