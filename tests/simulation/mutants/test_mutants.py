"""Planted faults are found: six of them here, all of them by `scripts/soak mutants`."""

from __future__ import annotations

import pytest

from tests.simulation.mutants.__main__ import row, verdict_of
from tests.simulation.mutants.planted import BROUGHT_OUT_BY, MUTANTS, Mutant
from tests.simulation.mutants.runner import Verdict, source_path

# Of the log, its leaders, the controller, the quorum, the coordinators and queues, with seeds that
# tell.
SIX = (
    ("a shrink counts before it is committed", 1),
    ("acks=all is answered after the append", 1),
    ("fenced brokers stay in the ISR", 1),
    ("the leader commits alone", 1),
    ("aborted transactions are not listed", 1),
    ("acknowledgements are answered before they are written", 1),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_its_module(mutant: Mutant) -> None:
    source = source_path(mutant).read_text(encoding="utf-8")
    compile(mutant.planted(source), mutant.module, "exec")


def test_there_are_enough_and_each_has_its_name() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS) >= 40
    assert set(BROUGHT_OUT_BY) <= names


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), SIX)
def test_a_mutant_is_found(name: str, seed: int) -> None:
    verdict = verdict_of(name, seed, 1)
    assert verdict.seed == seed, "the story went well"
    assert "the process ended" not in verdict.failure


def test_rows_of_the_table() -> None:
    assert row(Verdict("m", 7, 3, "a|b")) == "| m | 3 | 7 | a/b |"
    assert row(Verdict("m", None, 6, "")) == "| m | more than 6 | none |  |"
