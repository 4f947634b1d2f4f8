from __future__ import annotations

import errno
import socket

import pytest

from kaa.net.network import SystemNetwork


def test_an_empty_host_is_every_interface() -> None:
    bound = SystemNetwork().bind("", 0)
    try:
        host, port, *_ = bound.getsockname()
        assert host in {"::", "0.0.0.0"}
        assert port > 0
        bound.listen(1)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.send(b"x")
    finally:
        bound.close()


def test_a_bound_socket_does_not_wait() -> None:
    bound = SystemNetwork().bind("127.0.0.1", 0)
    try:
        bound.listen(1)
        with pytest.raises(BlockingIOError):
            bound.accept()
    finally:
        bound.close()


def test_an_address_in_use_is_refused() -> None:
    network = SystemNetwork()
    first = network.bind("127.0.0.1", 0)
    try:
        first.listen(1)
        with pytest.raises(OSError, match="in use") as failure:
            network.bind("127.0.0.1", first.getsockname()[1])
        assert failure.value.errno == errno.EADDRINUSE
    finally:
        first.close()


def test_the_name_of_the_host_is_the_systems() -> None:
    assert SystemNetwork().host_name() == socket.gethostname()
