"""Quorums of every mix of Kaa and Apache Kafka: `scripts/soak mixed_cluster`.

Three nodes of Kaa; two and one; one and two; with static voters that become dynamic and with
dynamic ones. Each goes through `tests/support/mixed_story.py`, with leaders of both kinds killed.
At the end Kafka's DumpLogSegments and MetadataShell read the metadata log of every node and find
what was promised. Rounds go on until time is up; one is always told to its end.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import tempfile
import time
from pathlib import Path

from tests.oracle.client import Oracle
from tests.oracle.environment import wait_until
from tests.support.mixed_cluster import SETTLED_SECONDS_MAX, MixedCluster, Storm
from tests.support.mixed_story import every_voter_leads, replace

MIXES = (((1, 2, 3), ()), ((2, 3), (1,)), ((3,), (1, 2)))


def tell(oracle: Oracle, kaa: tuple[int, ...], kafka: tuple[int, ...], is_dynamic: bool) -> int:
    """One mix, the whole story; how many changes it was promised."""
    with (
        tempfile.TemporaryDirectory(prefix="kaa-mixed-") as folder,
        MixedCluster(Path(folder), oracle, kaa, kafka, is_dynamic=is_dynamic) as made,
    ):
        if not is_dynamic:
            upgrade = ("--bootstrap-server", made.bootstrap_servers, "upgrade")
            feature = ("--feature", "kraft.version=1")
            # Each voter tells a new leader what it supports, after a while.
            assert wait_until(
                lambda: oracle.run_tool("FeatureCommand", *upgrade, *feature).code == 0,
                SETTLED_SECONDS_MAX,
            )
        with Storm(made) as storm:
            every_voter_leads(made, storm)
            for node_id in sorted(made.nodes):
                replace(made, storm, node_id)
        made.check_equal(storm.promised)
        for node in made.nodes.values():
            read_by_kafka(oracle, node.folder / "data" / "__cluster_metadata-0", storm.promised)
        return len(storm.promised)


def read_by_kafka(oracle: Oracle, place: Path, promised: list[str]) -> None:
    """Kafka's tools find nothing wrong with a metadata log, and every topic that was promised."""
    (path,) = place.glob("*.log")
    dumped = oracle.run_tool("DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path))
    assert (dumped.code, dumped.err) == (0, ""), dumped.err
    found = set(re.findall(r'"type":"TOPIC_RECORD".*?"name":"([^"]+)"', dumped.out))
    lacking = set(promised) - found
    assert not lacking, f"{place}: {len(lacking)} topics are missing, {sorted(lacking)[:9]}"
    # It begins to answer while it still reads, so that what it shows may be an early image.
    shown = oracle.run_tool("MetadataShell", "--snapshot", str(path), "find", "/image")
    assert shown.code == 0, shown.err
    assert "/image/cluster" in shown.out.split(), shown.out


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.mixed_cluster", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    deadline = time.monotonic() + parser.parse_args(arguments).seconds
    # That a node that was killed cannot be reached is not news.
    logging.getLogger("kaa.client").setLevel(logging.ERROR)
    with Oracle() as oracle:
        while True:
            for kaa, kafka in MIXES:
                for is_dynamic in (True, False):
                    kind = "dynamic" if is_dynamic else "static"
                    name = f"{len(kaa)} Kaa, {len(kafka)} Kafka, {kind} voters"
                    print(name, end=": ", flush=True)
                    began = time.monotonic()
                    count = tell(oracle, kaa, kafka, is_dynamic)
                    print(f"{count} topics kept, {time.monotonic() - began:.0f} s", flush=True)
            if time.monotonic() > deadline:
                return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
