"""Kaa and Apache Kafka vote in one quorum, and its voters come and go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.oracle.client import Oracle
from tests.oracle.environment import wait_until
from tests.support.mixed_cluster import SETTLED_SECONDS_MAX, MixedCluster, Storm
from tests.support.mixed_story import every_voter_leads

pytestmark = pytest.mark.oracle

# A resigned leader names successors with equal logs by their ids: Kafka's turn comes early.
KAFKA, KAA = (1,), (2, 3)


@pytest.mark.slow
def test_every_voter_leads_and_voters_come_and_go(oracle: Oracle, tmp_path: Path) -> None:
    with MixedCluster(tmp_path, oracle, KAA, KAFKA, is_dynamic=True) as made:
        with Storm(made) as storm:
            every_voter_leads(made, storm, gentle=KAFKA)
        made.check_equal(storm.promised)


@pytest.mark.slow
def test_static_voters_become_dynamic(oracle: Oracle, tmp_path: Path) -> None:
    with MixedCluster(tmp_path, oracle, KAA, KAFKA, is_dynamic=False) as made:
        address = ("--bootstrap-server", made.bootstrap_servers)
        # Each voter tells a new leader what it supports, after a while.
        upgrade = (*address, "upgrade", "--feature", "kraft.version=1")
        assert wait_until(
            lambda: oracle.run_tool("FeatureCommand", *upgrade).code == 0, SETTLED_SECONDS_MAX
        )
        printed = made.tool("FeatureCommand", *address, "describe")
        assert re.search(r"kraft.version.*FinalizedVersionLevel: 1", printed)
        directories = {voter.node_id: voter.directory_id for voter in made.quorum().voters}
        assert directories == {each.id: each.directory_id for each in made.nodes.values()}
        leader = made.leader()
        voter = next(each for each in (1, 2, 3) if each != leader)
        made.remove(voter, by_controller=True)
        made.remove(leader, by_controller=False)
        assert len(made.voters()) == 1
        made.add(voter, by_controller=False)
        made.add(leader, by_controller=True)
        assert made.voters() == [1, 2, 3]
        with Storm(made) as storm:
            storm.wait_for_more(3)
        made.check_equal(storm.promised)
