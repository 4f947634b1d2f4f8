from __future__ import annotations

import pytest

from kaa.controller.assignments import check_assignment
from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors
from tests.unit.controller.cluster import Cluster


@pytest.mark.parametrize("replicas", [[0], [2, 0, 1], [1, 0]])
def test_legal(replicas: list[int]) -> None:
    check_assignment(Cluster(3).state, replicas, len(replicas))
    check_assignment(Cluster(3).state, replicas, None)


@pytest.mark.parametrize(
    ("replicas", "factor"), [([], None), ([0, 0], None), ([3], None), ([-1], None), ([0, 1], 3)]
)
def test_illegal(replicas: list[int], factor: int | None) -> None:
    with pytest.raises(ControllerError) as refused:
        check_assignment(Cluster(3).state, replicas, factor)
    assert refused.value.error is Errors.INVALID_REPLICA_ASSIGNMENT
