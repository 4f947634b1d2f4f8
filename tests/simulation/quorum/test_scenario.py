"""A sample of the seeds that `python -m tests.simulation.quorum --seeds 1000` runs in full."""

from __future__ import annotations

from collections import Counter

import pytest

from kaa.quorum import Effect
from kaa.quorum.transitions import LEGAL_TRANSITIONS
from tests.simulation.quorum.__main__ import replay_command
from tests.simulation.quorum.scenario import (
    ElectionStorm,
    LeaderCrashes,
    LostDisk,
    Result,
    Scenario,
)

SAMPLE = range(60)
# The sample takes ten seconds of a processor, which others may want too; one worker has it.
pytestmark = [pytest.mark.timeout(480), pytest.mark.xdist_group("quorum sample")]


def run(scenario: Scenario, seed: int) -> Result:
    try:
        return scenario.run()
    except Exception as failure:
        failure.add_note(f"seed {seed} failed; replay: {replay_command(seed)}")
        raise


@pytest.fixture(scope="module")
def sample() -> list[Result]:
    return [run(Scenario(seed), seed) for seed in SAMPLE]


def test_no_seed_breaks_an_invariant(sample: list[Result]) -> None:
    assert len(sample) == len(SAMPLE)
    assert all(result.acknowledged > 0 for result in sample)


def test_the_sample_reaches_every_transition(sample: list[Result]) -> None:
    seen = {pair for result in sample for pair in result.transitions}
    assert {(old.__name__, new.__name__) for old, new in LEGAL_TRANSITIONS} == seen


def test_the_sample_reaches_every_effect(sample: list[Result]) -> None:
    seen = sum((result.effects for result in sample), Counter[str]())
    kinds: tuple[type, ...] = Effect.__args__
    # The voters of these runs are static.
    assert {kind.__name__ for kind in kinds} - {"AppendVoters"} == set(seen)


def test_a_seed_is_a_run() -> None:
    one, other = Scenario(7).run(), Scenario(7).run()
    assert (one.events, one.effects, one.simulated_ms) == (
        other.events,
        other.effects,
        other.simulated_ms,
    )


@pytest.mark.parametrize("seed", range(6))
def test_storms_of_elections_break_nothing(seed: int) -> None:
    assert run(ElectionStorm(seed), seed).epochs > 10


@pytest.mark.parametrize("seed", range(3))
def test_leaders_that_crash_and_return_break_nothing(seed: int) -> None:
    assert run(LeaderCrashes(seed), seed).epochs > 1


@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_one_voter_may_lose_its_disk(seed: int, voters: int) -> None:
    assert run(LostDisk(seed, voters=voters), seed).acknowledged > 0
