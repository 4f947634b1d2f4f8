from __future__ import annotations

import pytest

from kaa.cli.cluster.replica_health import problem_of
from kaa.client.metadata import Partition


@pytest.mark.parametrize(
    ("leader", "isr", "minimum", "problem"),
    [
        (1, (1, 2, 3), 2, None),
        (1, (1, 2), 2, "under-replicated"),
        (1, (1,), 2, "under min ISR"),
        (-1, (1,), 1, "offline"),
        # A minimum that can never be reached counts as the number of replicas.
        (1, (1, 2, 3), 4, None),
    ],
)
def test_the_worst_is_named(
    leader: int, isr: tuple[int, ...], minimum: int, problem: str | None
) -> None:
    assert problem_of(Partition(0, leader, 5, (1, 2, 3), isr), minimum) == problem
