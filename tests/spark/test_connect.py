"""Spark Connect: the source and the sink in a session that only talks to a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.conftest import Cluster
from tests.spark.copying import ROWS, Copy
from tests.spark.programs import Program
from tests.support.broker_process import BrokerProcess

# Only one server at a time can listen where those of Spark Connect do.
pytestmark = [pytest.mark.xdist_group("spark connect"), pytest.mark.timeout(600)]


def test_topics_are_read_and_written_over_connect(
    kaa_node: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    copy = Copy(kaa_node.bootstrap_servers, topic, tmp_path)
    Cluster(copy.servers).create(f"{copy.out}-batch")
    arguments = [copy.servers, topic, copy.out, str(tmp_path / "checkpoint")]
    program = Program("connect", tmp_path, *arguments)
    program.end()
    assert f"rows {ROWS}" in program.output
    assert f"viewed {ROWS}" in program.output
    # Ten of each of the two partitions.
    assert "written 20" in program.output
    copy.check()
