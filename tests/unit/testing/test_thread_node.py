from __future__ import annotations

import pytest

from kaa.testing.faults import Faults
from kaa.testing.thread_node import ThreadNode


def test_a_node_has_a_loop_of_its_own() -> None:
    node = ThreadNode([], Faults())
    with pytest.raises(RuntimeError, match="not running"):
        node.call(list)
    node.launch().result(20)
    try:
        assert node.is_running
        assert node.call(lambda: 7) == 7
    finally:
        node.launch_stop().result(20)
        node.join()
    assert not node.is_running


def test_an_error_of_a_start_reaches_anyone_who_waits() -> None:
    node = ThreadNode(["log.retention.ms=soon"], Faults())
    with pytest.raises(Exception, match=r"log\.retention\.ms"):
        node.launch().result(20)
    node.join()
