"""Queries as programs of their own: found from any shell, killed at any time, gone after Ctrl-C."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random

import pytest

from tests.oracle.environment import wait_until
from tests.spark.copying import Copy
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.xdist_group("spark processes"), pytest.mark.timeout(900)]


@pytest.mark.parametrize("seed", [20])
def test_a_query_that_is_killed_writes_every_row_once(
    kaa_node: BrokerProcess, topic: str, tmp_path: Path, seed: int
) -> None:
    copy = Copy(kaa_node.bootstrap_servers, topic, tmp_path)
    # The first run dies in the middle of its work, wherever that is.
    program = copy.start()
    copy.wait(program, Random(seed).randrange(150, 400))
    program.kill()
    # The second one is interrupted from the keyboard, and takes its Java with it.
    program = copy.start()
    copy.wait(program, copy.written() + 1)
    assert len(program.family()) > 1
    os.killpg(program.process.pid, signal.SIGINT)
    program.process.wait(60)
    assert wait_until(lambda: not program.family(), 60), program.family()
    # The third one finishes.
    copy.start().end()
    copy.check()
