"""A quorum with one rule of changing voters broken is caught by the invariant of that rule."""

from __future__ import annotations

import pytest

from tests.simulation.controllers.mutants import MUTANTS, Mutant
from tests.simulation.controllers.scenario import Scenario
from tests.simulation.world.committed import InvariantError


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mutation.__name__)
def test_a_broken_rule_is_caught(mutant: Mutant) -> None:
    found = set()
    for plan in mutant.plans():
        try:
            with mutant.mutation():
                Scenario(plan).run()
        except InvariantError as error:
            found.add(error.name)
            break
        except AssertionError:
            # It stumbles otherwise, too; what counts is that it is named.
            continue
    assert found == {mutant.caught_by}
