from __future__ import annotations

import logging

import pytest

from kaa.cli.client_log import client_log


def test_a_command_says_what_it_waits_for_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    leaders, others = logging.getLogger("kaa.client.leaders"), logging.getLogger("kaa.client.x")
    before = leaders.level, leaders.propagate
    with client_log(is_verbose=False):
        leaders.warning("partition %s has no leader", "t-0")
        leaders.info("partition %s has a leader", "t-0")
        assert not others.isEnabledFor(logging.WARNING)
    assert capsys.readouterr().err == "warning: partition t-0 has no leader\n"
    assert (leaders.level, leaders.propagate) == before
    assert leaders.handlers == []
    with client_log(is_verbose=True):
        assert others.isEnabledFor(logging.WARNING)
