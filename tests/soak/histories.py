"""Histories of transactions under kills, seed after seed: `scripts/soak histories`.

A failure prints its seed and every anomaly; `--seed` begins with that one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random

from tests.histories.checks import check
from tests.histories.workload import Workload
from tests.support.broker_process import BrokerProcess

SECONDS_EACH = 15


def run(seed: int) -> bool:
    """Runs one seed; tells whether its history is sound."""
    random = Random(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder, "node")) as node,
    ):

        def kill() -> None:
            threading.Event().wait(random.uniform(0.1, 4))
            node.kill()
            node.start()

        workload = Workload(node.bootstrap_servers, "history", seed=seed)
        operations = workload.run(SECONDS_EACH, kill if seed % 4 else None)
        anomalies = check(operations)
        node.check_health()
    print(f"seed {seed}: {len(operations)} operations, {len(anomalies)} anomalies", flush=True)
    for anomaly in anomalies:
        print(f"  {anomaly}")
    return not anomalies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    seed, are_sound = options.seed, True
    while time.monotonic() < ends:
        are_sound = run(seed) and are_sound
        seed += 1
    return 0 if are_sound else 1


if __name__ == "__main__":
    sys.exit(main())
