"""Three nodes with replicated topics: nothing acknowledged is lost, whatever happens to one."""

from __future__ import annotations

from pathlib import Path

from tests.histories.checks import check
from tests.histories.workload import Workload
from tests.process.cluster_faults import Fault, Faults
from tests.support.cluster_process import ClusterProcesses

FAULTS = 2 * len(Fault)


def test_histories_of_transactions_hold(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        faults = Faults(cluster, seed=1, kinds=list(Fault))
        workload = Workload(cluster.bootstrap_servers, "history", seed=1, replicas=3)
        operations = workload.run_until(lambda: len(faults.happened) >= FAULTS, faults.next)
        assert check(operations) == []
        cluster.check_health()
