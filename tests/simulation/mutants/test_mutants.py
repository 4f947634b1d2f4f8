"""Planted faults are found: eight of them here, all of them by `scripts/soak mutants`."""

from __future__ import annotations

import pytest

from tests.simulation.mutants.__main__ import row, verdict_of
from tests.simulation.mutants.planted import BROUGHT_OUT_BY, MUTANTS, Mutant
from tests.simulation.mutants.runner import Verdict, source_path

# Of the log, leaders, the controller, the quorum, coordinators, queues, voters and the tier.
EIGHT = (
    "a replica joins without being caught up",
    "acks=all is answered after the append",
    "fenced brokers stay in the ISR",
    "the leader commits alone",
    "aborted transactions are not listed",
    "acknowledgements are answered before they are written",
    "a new set of voters does not count",
    "a copy counts before it is made",
)
# Any change of the code tells other stories; most of these are found by the first or the second.
SEEDS_MAX = 6


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_its_module(mutant: Mutant) -> None:
    source = source_path(mutant).read_text(encoding="utf-8")
    compile(mutant.planted(source), mutant.module, "exec")


def test_there_are_enough_and_each_has_its_name() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS) >= 40
    assert set(BROUGHT_OUT_BY) <= names


@pytest.mark.slow
@pytest.mark.parametrize("name", EIGHT)
def test_a_mutant_is_found(name: str) -> None:
    verdict = verdict_of(name, 1, SEEDS_MAX)
    assert verdict.seed is not None, f"{SEEDS_MAX} stories went well"
    assert "the process ended" not in verdict.failure


def test_rows_of_the_table() -> None:
    assert row(Verdict("m", 7, 3, "a|b")) == "| m | 3 | 7 | a/b |"
    assert row(Verdict("m", None, 6, "")) == "| m | more than 6 | none |  |"
