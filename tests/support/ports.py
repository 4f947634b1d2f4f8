"""Ports for servers of tests."""

from __future__ import annotations

import itertools
import os
import socket

LOOPBACK = "127.0.0.1"
# Below the ports that the system gives to clients: a port of ours stays free over a restart.
_LOW, _HIGH = 18_000, 32_000
# Processes that run at once have neighbouring ids; a step of the golden section keeps them from
# taking each other's ports, of which one is free while its node is down.
_tried = itertools.count(os.getpid() * 8_653)


def free_port() -> int:
    """A port that is free now and that nobody gets by chance."""
    for number in _tried:
        port = _LOW + number % (_HIGH - _LOW)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise AssertionError
