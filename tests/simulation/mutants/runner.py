"""Runs stories over a mutant until one of them fails.

The mutant is planted by the import of its module, so that it lives in one process only
(`python -m tests.simulation.mutants --mutant NAME`); nothing in the tree is changed.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.mutants.planted import BROUGHT_OUT_BY, Mutant
from tests.simulation.world.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import CodeType, ModuleType

STORY_SECONDS = 15.0


class Verdict(NamedTuple):
    """`seed` found the mutant after so many stories; None if all of them passed."""

    mutant: str
    seed: int | None
    stories: int
    failure: str


def source_path(mutant: Mutant) -> Path:
    spec = importlib.util.find_spec(mutant.module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text(encoding="utf-8")
        return compile(self._mutant.planted(source), self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._mutant)
        return spec


def plant(mutant: Mutant) -> None:
    """From now on this process has the mutant; nothing may have imported its module before."""
    assert mutant.module not in sys.modules, f"{mutant.module} was imported already"
    sys.meta_path.insert(0, _Finder(mutant))


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Verdict:
    """Stories over the planted mutant, until one fails."""
    plant(mutant)
    from tests.simulation.world.__main__ import run
    from tests.simulation.world.scenario import Plan, queue_plan, tier_plan, voter_plan

    stories = 0
    for seed in seeds:
        stories += 1
        kinds = BROUGHT_OUT_BY.get(mutant.name, KINDS)
        plan = Plan(seed, seconds=STORY_SECONDS, nodes=3, kinds=kinds)
        if mutant.is_of_queues:
            plan = queue_plan(seed, STORY_SECONDS, kinds, visitors=mutant.visitors)
        elif mutant.is_of_voters:
            plan = voter_plan(seed, STORY_SECONDS, kinds)
        elif mutant.is_of_tier:
            plan = tier_plan(seed, STORY_SECONDS, kinds)
        found: Any = run(plan)
        if found[1] is None:
            return Verdict(mutant.name, seed, stories, found[2].replace("\n", " ")[:120])
    return Verdict(mutant.name, None, stories, "")
