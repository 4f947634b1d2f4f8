"""A random workload of transactions, with and without kills of the node, judged by the checker.

A failing history is written beside the node's files. `python -m tests.soak.histories` runs the same
for longer, over many seeds.
"""

from __future__ import annotations

import threading
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.histories.checks import check
from tests.histories.model import Outcome
from tests.histories.workload import Workload

if TYPE_CHECKING:
    from tests.support.broker_process import BrokerProcess

SECONDS = 12


@pytest.mark.parametrize("seed", [1])
def test_without_kills(node: BrokerProcess, seed: int) -> None:
    operations = Workload(node.bootstrap_servers, "history", seed=seed).run(SECONDS)
    assert check(operations) == []
    outcomes = Counter(operation.outcome for operation in operations)
    assert outcomes[Outcome.OK] > 20
    assert outcomes[Outcome.FAILED] > 5
    node.check_health()


@pytest.mark.parametrize("seed", [2])
def test_with_kills(node: BrokerProcess, seed: int) -> None:
    random = Random(seed)

    def kill() -> None:
        threading.Event().wait(random.uniform(0.5, 3))
        node.kill()
        node.start()

    operations = Workload(node.bootstrap_servers, "history", seed=seed).run(SECONDS, kill)
    assert check(operations) == []
    assert sum(operation.outcome is Outcome.OK for operation in operations) > 20
    node.check_health()
