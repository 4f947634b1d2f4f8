"""Groups with members that come, leave, die and pause: `python -m tests.soak.groups --seconds N`.

The groups have from 1 to 50 members, of every library and protocol in turn. A failure names its
seed; `--seed` runs that one again. Java's members need Java and Maven, and are left out without.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom

from tests.clients.churn import AiokafkaDriver, churn, driver_of
from tests.clients.conftest import QUICK_SESSIONS
from tests.oracle import Oracle
from tests.oracle.environment import OracleUnavailableError
from tests.support.broker_process import BrokerProcess

KINDS = (
    "java consumer",
    "librdkafka consumer",
    "kafka-python",
    "librdkafka classic",
    "java classic",
    "librdkafka cooperative-sticky",
    "aiokafka",
)
ROUNDS = 4


def run_seed(seed: int, oracle: Oracle | None) -> str:
    random = Random(seed)
    kinds = [kind for kind in KINDS if oracle is not None or not kind.startswith("java")]
    kind = kinds[seed % len(kinds)]
    members = random.choice((1, 3, 10, 25, 50))
    topic = f"soak-{seed}"
    with (
        tempfile.TemporaryDirectory(prefix="kaa-groups-") as folder,
        BrokerProcess(Path(folder, "node"), *QUICK_SESSIONS) as broker,
    ):
        bootstrap = broker.bootstrap_servers
        driver = driver_of(kind, oracle, bootstrap, topic)
        churn(driver, bootstrap, topic, members=members, rounds=ROUNDS, random=random)
        if isinstance(driver, AiokafkaDriver):
            driver.close()
        broker.stop()
    return f"{members} members of {kind}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.groups", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    options = parser.parse_args(arguments)
    try:
        oracle: Oracle | None = Oracle()
    except OracleUnavailableError as error:
        print(f"without Java: {error}")
        oracle = None
    deadline = time.monotonic() + options.seconds
    for seed in itertools.count(options.seed):
        try:
            told = run_seed(seed, oracle)
        except BaseException:
            print(f"failed: python -m tests.soak.groups --seconds 1 --seed {seed}", flush=True)
            raise
        print(f"seed {seed}: {told}", flush=True)
        if time.monotonic() > deadline:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
