"""Every invariant can fail: a quorum with one rule broken is caught by it."""

from __future__ import annotations

import pytest

from kaa.quorum import QuorumError
from tests.simulation.quorum.invariants import InvariantError
from tests.simulation.quorum.mutants import MUTANTS, Mutant

KAFKA_INVARIANTS = {
    "MonotonicEpoch",
    "SingleLeader",
    "MajorityReachedHighWatermark",
    "MonotonicHighWatermark",
    "SnapshotAtLogStart",
    "LeaderNeverLoadSnapshot",
    "ConsistentCommittedData",
}


def catches(mutant: Mutant, seed: int) -> set[str]:
    """The invariant that a seed of the mutant breaks; stumbling otherwise does not count."""
    try:
        mutant.scenario(seed).run()
    except InvariantError as failure:
        return {failure.invariant}
    except QuorumError:
        return {"QuorumError"}
    except AssertionError:
        return set()
    return set()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mutation.__name__)
def test_a_broken_quorum_is_caught(mutant: Mutant) -> None:
    with mutant.mutation():
        for seed in range(mutant.seeds):
            if catches(mutant, seed) & mutant.caught_by:
                return
    pytest.fail(f"{mutant.seeds} seeds, and none of {sorted(mutant.caught_by)} noticed")


def test_every_invariant_catches_a_mutant() -> None:
    assert {name for mutant in MUTANTS for name in mutant.caught_by} >= KAFKA_INVARIANTS
