from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.simulation.world.kernel import Kernel
from tests.simulation.world.loop import SimLoop
from tests.simulation.world.network import HostNetwork, SimNetwork, SimSocket

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Caller(asyncio.BufferedProtocol):
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.buffer = bytearray(64)
        self.received = b""
        self.is_eof = False
        self.lost: list[Exception | None] = []

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]

    def eof_received(self) -> None:
        self.is_eof = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Pair:
    """A server that echoes, and a client on another host."""

    def __init__(self, seed: int = 1) -> None:
        self.kernel = Kernel(seed)
        self.network = SimNetwork(self.kernel)
        self.server = SimLoop(self.kernel, "server", self.network)
        self.client = SimLoop(self.kernel, "client", self.network)
        self.listening = HostNetwork(self.network, self.server).bind("server", 9)
        self.listening.listen(5)
        self.server.add_reader(self.listening.fileno(), self._accept)
        self.accepted: list[SimSocket] = []
        self.is_silent = False

    def _accept(self) -> None:
        sock, _ = self.listening.accept()
        self.accepted.append(sock)
        self.server.add_reader(sock.fileno(), self._echo, sock)

    def _echo(self, sock: SimSocket) -> None:
        if self.is_silent:
            self.server.remove_reader(sock.fileno())
            return
        try:
            data = sock.recv(1_000)
        except ConnectionResetError:
            data = b""
        if data:
            sock.send(data)
        else:
            self.server.remove_reader(sock.fileno())
            sock.close()

    def run(self, work: Coroutine[Any, Any, Any], seconds: float = 5) -> Any:
        task = self.client.create_task(work)
        self.kernel.run_until(task.done, seconds, "the client was not done")
        return task.result()

    def connect(self, seconds: float = 5) -> tuple[Any, Caller]:
        found: tuple[Any, Caller] = self.run(
            self.client.create_connection(Caller, "server", 9), seconds
        )
        return found

    def expect(self, caller: Caller, data: bytes, seconds: float = 5) -> None:
        self.kernel.run_until(lambda: caller.received == data, seconds, f"{data!r} did not arrive")


def test_bytes_arrive_in_order_after_a_while() -> None:
    pair = Pair()
    transport, caller = pair.connect()
    text = b"".join(b"%d," % number for number in range(2_000))
    for start in range(0, len(text), 10):
        transport.write(text[start : start + 10])
    pair.expect(caller, text)
    assert pair.kernel.now > 0.0003


def test_nobody_listens() -> None:
    pair = Pair()
    pair.listening.close()
    with pytest.raises(ConnectionRefusedError):
        pair.connect()


def test_a_reader_that_does_not_read_stops_the_writer() -> None:
    pair = Pair()
    pair.is_silent = True
    transport, caller = pair.connect()
    transport.write(bytes(1_000_000))
    pair.kernel.run_for(5)
    end = pair.accepted[0]._end
    assert len(end.inbox) <= 256 * 1024
    pair.is_silent = False
    pair.server.add_reader(pair.accepted[0].fileno(), pair._echo, pair.accepted[0])
    pair.kernel.run_until(lambda: len(caller.received) > 300_000, 60, "it did not go on")


def test_a_cut_holds_back_one_direction_until_it_heals() -> None:
    pair = Pair()
    transport, caller = pair.connect()
    pair.network.cut("server", "client")
    transport.write(b"hello")
    pair.kernel.run_for(10)
    assert caller.received == b""
    assert not pair.accepted[0]._end.inbox
    pair.network.heal("server", "client")
    pair.expect(caller, b"hello")


def test_no_connection_is_made_over_a_cut() -> None:
    pair = Pair()
    pair.network.cut("client", "server")
    pair.kernel.after(5, pair.network.heal, "client", "server")
    pair.connect(10)
    assert pair.kernel.now > 5


def test_who_gives_up_while_it_is_established_closes_the_connection() -> None:
    pair = Pair()
    task = pair.client.create_task(pair.client.create_connection(Caller, "server", 9))
    network = pair.network
    pair.kernel.run_until(lambda: bool(network._unanswered), 5, "nobody was accepted")
    pair.kernel.run_until(lambda: not network._unanswered, 5, "nobody was answered")
    # The answer is there, and the task has not gone on yet.
    task.cancel()
    pair.kernel.run_until(task.done, 5, "it was not done")
    assert task.cancelled()
    assert network.open_ends("client") == 0


def test_a_cut_that_stays_ends_the_connection() -> None:
    pair = Pair()
    transport, caller = pair.connect()
    pair.network.cut("client", "server")
    transport.write(b"hello")
    pair.kernel.run_until(lambda: bool(caller.lost), 70, "the connection did not end")


def test_a_reset_fails_both_ends() -> None:
    pair = Pair()
    transport, caller = pair.connect()
    transport.write(b"hello")
    pair.expect(caller, b"hello")
    assert pair.network.reset_one()
    pair.kernel.run_until(lambda: bool(caller.lost), 5, "the client was not told")
    assert isinstance(caller.lost[0], ConnectionResetError)
    assert not pair.network.reset_one()


def test_the_end_of_the_stream_comes_after_the_bytes() -> None:
    pair = Pair()
    transport, caller = pair.connect()
    transport.write(b"hello")
    pair.expect(caller, b"hello")
    pair.accepted[0].send(b" bye")
    pair.accepted[0].close()
    pair.kernel.run_until(lambda: caller.is_eof, 5, "the end did not arrive")
    assert caller.received == b"hello bye"


def test_a_host_without_power_is_silent_until_it_is_back() -> None:
    pair = Pair()
    transport, caller = pair.connect()
    pair.network.host_down("server", is_silent=True)
    transport.write(b"hello")
    pair.kernel.run_for(5)
    assert not caller.lost
    pair.network.host_up("server")
    transport.write(b"again")
    pair.kernel.run_until(lambda: bool(caller.lost), 5, "the reset did not come")


def test_a_slow_link_is_slow_one_way() -> None:
    pair = Pair()
    pair.network.slow_down("server", "client", 2.0)
    transport, caller = pair.connect(10)
    began = pair.kernel.now
    for number in range(5):
        transport.write(b"%d" % number)
    pair.expect(caller, b"01234", 20)
    assert pair.kernel.now - began > 0.05
