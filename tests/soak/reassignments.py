"""Histories of transactions while every partition moves to other brokers, again and again, seed
after seed: `scripts/soak reassignments`.

A failure prints its seed, every anomaly, the operations, and the batches of each partition as its
leader has them; `--seed` begins with that one. Several at once on a busy machine find the most.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from kaa.client import Consumer
from kaa.client.sync.admin import Admin
from kaa.model.topics import TopicPartition
from kaa.records.batch import iter_batches
from kaa.testing import Cluster
from tests.histories.checks import check
from tests.histories.workload import PARTITIONS, Workload
from tests.process.counting import Counting
from tests.process.test_reassignment import BROKERS, SECONDS, SETTINGS, Moves

TOPIC = "history"
_FETCHED_BYTES = 1_048_576


def run(seed: int) -> bool:
    """Runs one seed; tells whether its history is sound, and its load complete."""
    with Cluster(len(BROKERS), overrides=SETTINGS) as cluster:
        counting = Counting(cluster.bootstrap_servers)
        counting.start()
        workload = Workload(cluster.bootstrap_servers, TOPIC, seed=seed, replicas=3)
        with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            moves = Moves(admin, seed=seed)
            operations = workload.run(SECONDS, moves.next)
        troubles = [str(anomaly) for anomaly in check(operations)]
        try:
            counting.finish()
        except AssertionError as error:
            troubles.append(str(error))
        print(f"seed {seed}: {moves.count} moves, {len(troubles)} troubles", flush=True)
        if troubles:
            print("\n".join([*troubles, *map(str, operations)]))
            asyncio.run(_print_batches(cluster.bootstrap_servers))
    return not troubles


async def _print_batches(bootstrap: str) -> None:
    async with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        for number in range(PARTITIONS):
            print(f"{TOPIC}-{number}")
            offset = 0
            while True:
                fetched = await consumer.fetch_batches(
                    TopicPartition(TOPIC, number), offset, _FETCHED_BYTES
                )
                batches = list(iter_batches(fetched.data))
                if not batches:
                    break
                for batch in batches:
                    kind = "marker" if batch.is_control else "records"
                    print(
                        f"  {batch.base_offset} to {batch.last_offset}: {kind} of "
                        f"{batch.producer_id}/{batch.producer_epoch}, "
                        f"sequence {batch.base_sequence}, epoch {batch.partition_leader_epoch}"
                    )
                offset = batches[-1].last_offset + 1


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
