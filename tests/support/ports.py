"""Ports for servers of tests."""

from __future__ import annotations

import itertools
import os
import socket

from kaa.cli.supervisor import CONTROLLER_PORT_DISTANCE

LOOPBACK = "127.0.0.1"
# Below the ports that the system gives to clients: a port of ours stays free over a restart.
_LOW, _HIGH = 18_000, 32_000
# Processes that run at once have neighbouring ids; a step of the golden section keeps them from
# taking each other's ports, of which one is free while its node is down.
_tried = itertools.count(os.getpid() * 8_653)
# The workers of one run of pytest do not take each other's; those of a cluster, which lie ten
# thousand apart, belong to the same one.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_given: set[int] = set()


def free_port(*distances: int) -> int:
    """A port that is free now and that nobody gets by chance, as are those at these distances."""
    for number in _tried:
        port = _LOW + number % (_HIGH - _LOW)
        wanted = [port, *(port + each for each in distances)]
        if max(wanted) < _HIGH and _given.isdisjoint(wanted) and all(map(_is_free, wanted)):
            # Those at the distances would be the next ones to be tried.
            _given.update(wanted[1:])
            return port
    raise AssertionError


def free_cluster_port(count: int) -> int:
    """The first port of a cluster of so many nodes on one machine, as `plan_cluster` counts."""
    brokers = range(count)
    controllers = range(CONTROLLER_PORT_DISTANCE, CONTROLLER_PORT_DISTANCE + count)
    return free_port(*brokers, *controllers)


def _is_free(port: int) -> bool:
    if port % CONTROLLER_PORT_DISTANCE // 10 % _workers != _worker % _workers:
        return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
