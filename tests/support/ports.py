"""Ports for servers of tests."""

from __future__ import annotations

import itertools
import os
import socket

LOOPBACK = "127.0.0.1"
# Below the ports that the system gives to clients: a port of ours stays free over a restart.
_LOW, _HIGH = 18_000, 32_000
_tried = itertools.count(os.getpid() * 37)


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
