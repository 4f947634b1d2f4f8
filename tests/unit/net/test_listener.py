from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from kaa import limits
from kaa.net.listener import Listener, ListenerSettings, _plain_address
from kaa.net.network import ListeningSocket, StreamSocket, SystemNetwork
from tests.support.pace import PATIENCE_SECONDS
from tests.unit.net.support import ECHO, HOLD, running, sized


def test_port_zero_is_the_choice_of_the_system() -> None:
    async def main() -> None:
        async with running() as system:
            assert system.listener.port > 0

    asyncio.run(main())


def test_port_clash_is_an_error_of_bind() -> None:
    async def main() -> None:
        async with running() as system:
            settings = ListenerSettings("OTHER", "127.0.0.1", system.port)
            other = Listener(
                settings,
                loop=asyncio.get_running_loop(),
                executor=system.listener.executor,
            )
            with pytest.raises(OSError, match="in use") as failure:
                other.bind()
            assert failure.value.errno == errno.EADDRINUSE

    asyncio.run(main())


def test_connections_beyond_the_limit_wait_for_one_to_end() -> None:
    async def main() -> None:
        async with running(connections_max=2) as system:
            first, second = await system.connect(), await system.connect()
            assert await first.ask(bytes([ECHO])) == bytes([ECHO])
            assert await second.ask(bytes([ECHO])) == bytes([ECHO])
            third = await system.connect()
            await asyncio.sleep(0.05)
            assert len(system.listener.connections) == 2
            first.socket.close()
            assert await third.ask(bytes([ECHO])) == bytes([ECHO])
            assert system.listener.counts.refused == 0

    asyncio.run(main())


def test_new_connections_of_a_second_are_limited() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        # The start of a second, so that the end of it is not near.
        await asyncio.sleep(1 - loop.time() % 1)
        async with running(connections_per_second_max=2) as system:
            clients = [await system.connect() for _ in range(3)]
            for client in clients[:2]:
                assert await client.ask(bytes([ECHO])) == bytes([ECHO])
            assert system.listener.counts.accepted == 2
            began = int(loop.time())
            assert await clients[2].ask(bytes([ECHO])) == bytes([ECHO])
            assert int(loop.time()) > began
            assert system.listener.counts.accepted == 3

    asyncio.run(main())


def test_a_listener_that_rests_holds_up_nobody_else() -> None:
    """Neither the clients of another listener nor the end of the node."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(1 - loop.time() % 1)
        async with running(connections_per_second_max=1) as limited, running() as other:
            assert await (await limited.connect()).ask(bytes([ECHO])) == bytes([ECHO])
            await limited.connect()
            await limited.until(lambda: limited.listener._resume_handle is not None)
            rests_until = limited.listener._resume_handle.when()  # type: ignore[union-attr]
            assert await (await other.connect()).ask(bytes([ECHO])) == bytes([ECHO])
            limited.listener.stop_accepting()
            await limited.listener.drain(PATIENCE_SECONDS)
            assert loop.time() < rests_until

    asyncio.run(main())


class Failing:
    """A listening socket whose system gives no connection away, until it does again."""

    def __init__(self, sock: ListeningSocket, code: int) -> None:
        self._socket = sock
        self._code = code
        self.is_failing = True
        self.failed = 0

    def accept(self) -> tuple[StreamSocket, object]:
        if self.is_failing:
            self.failed += 1
            raise OSError(self._code, os.strerror(self._code))
        return self._socket.accept()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EPERM, errno.EPROTO, errno.ENETDOWN])
def test_without_descriptors_or_network_it_rests_and_goes_on_later(code: int) -> None:
    async def main() -> None:
        async with running() as system:
            assert system.listener._socket is not None
            failing = Failing(system.listener._socket, code)
            system.listener._socket = failing  # type: ignore[assignment]
            loop = asyncio.get_running_loop()
            surprises: list[object] = []
            loop.set_exception_handler(lambda _, context: surprises.append(context))
            client = await system.connect()
            began = loop.time()
            await system.until(lambda: failing.failed > 1)
            # It does not ask again and again meanwhile.
            pauses = (loop.time() - began) / limits.NET_ACCEPT_PAUSE_SECONDS
            assert failing.failed <= pauses + 2
            failing.is_failing = False
            assert await client.ask(bytes([ECHO])) == bytes([ECHO])
            assert surprises == []

    asyncio.run(main())


def test_the_last_descriptors_are_kept_for_files() -> None:
    async def main() -> None:
        async with running() as system:
            listener = system.listener
            reports: list[str] = []
            listener._report = reports.append
            first = await system.connect()
            assert await first.ask(bytes([ECHO])) == bytes([ECHO])
            listener._descriptors_max = 0
            others = [await system.connect() for _ in range(2)]
            await system.until(lambda: listener.counts.refused == 2)
            assert len(listener.connections) == 1
            # Not with each of them.
            assert ["ulimit -n" in text for text in reports] == [True]
            listener._descriptors_max = SystemNetwork().descriptors_max()
            again = await system.connect()
            assert await again.ask(bytes([ECHO])) == bytes([ECHO])
            for client in others:
                client.socket.close()

    asyncio.run(main())


def test_sizes_of_socket_buffers_that_somebody_chose() -> None:
    async def main() -> None:
        async with running(send_buffer_bytes=50_000, receive_buffer_bytes=40_000) as system:
            client = await system.connect()
            assert await client.ask(bytes([ECHO])) == bytes([ECHO])
            (connection,) = system.listener.connections
            sock = socket.socket(fileno=os.dup(connection._fileno))
            with sock:
                # Linux doubles what it is given.
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in {50_000, 100_000}
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in {40_000, 80_000}

    asyncio.run(main())


def test_connections_of_one_address_are_limited() -> None:
    async def main() -> None:
        overrides = {"127.0.0.1": 1}
        async with running(connections_per_address_overrides=overrides) as system:
            client = await system.connect()
            assert await client.ask(bytes([ECHO])) == bytes([ECHO])
            assert await (await system.connect()).is_cut_off()

    asyncio.run(main())


def test_mapped_address_counts_as_its_own() -> None:
    assert _plain_address("::ffff:10.0.0.1") == "10.0.0.1"
    assert _plain_address("::1") == "::1"


def test_idle_connections_are_closed_by_the_sweep() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.ask(bytes([ECHO]))
            now = asyncio.get_running_loop().time()
            system.listener.sweep(now + 599)
            assert len(system.listener.connections) == 1
            # The last input lies a little before now.
            system.listener.sweep(now + 600)
            assert await client.is_cut_off()
            assert system.listener.counts.closed_idle == 1

    asyncio.run(main())


def test_client_that_sends_no_request_is_cut_off() -> None:
    async def main() -> None:
        async with running() as system:
            silent = await system.connect()
            await system.until(lambda: len(system.listener.connections) == 1)
            patience = limits.NET_FIRST_REQUEST_SECONDS_MAX
            now = asyncio.get_running_loop().time()
            system.listener.sweep(now)
            assert len(system.listener.connections) == 1
            served = await system.connect()
            await served.ask(bytes([ECHO]))
            system.listener.sweep(now + patience + 1)
            assert await silent.is_cut_off()
            assert system.listener.counts.closed_late == 1
            # Who has asked once may be silent until it counts as idle.
            system.listener.sweep(asyncio.get_running_loop().time() + patience + 1)
            assert await served.ask(bytes([ECHO])) == bytes([ECHO])

    asyncio.run(main())


def test_client_that_never_finishes_a_request_is_cut_off() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.ask(bytes([ECHO]))
            sent = 10 * limits.NET_FRAME_BYTES_PER_SECOND_MIN
            await client.send(sized(bytes([ECHO]) + bytes(2 * sent))[:sent])
            await system.until(lambda: system.connection._have == sent)
            now = asyncio.get_running_loop().time()
            # Ten seconds more for what it has sent.
            system.listener.sweep(now + limits.NET_FRAME_SECONDS_MAX + 5)
            assert len(system.listener.connections) == 1
            # A single byte does not make it start anew.
            await client.send(b"x")
            await system.until(lambda: system.connection._have == sent + 1)
            system.listener.sweep(now + limits.NET_FRAME_SECONDS_MAX + 11)
            assert await client.is_cut_off()
            assert system.listener.counts.closed_late == 1

    asyncio.run(main())


def test_client_that_the_node_keeps_waiting_is_not_late() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.send(sized(bytes([HOLD])) + sized(bytes([ECHO, 1]))[:-1])
            await system.until(lambda: bool(system.node.waiting))
            now = asyncio.get_running_loop().time()
            system.listener.sweep(now + 500)
            assert len(system.listener.connections) == 1
            system.node.answer(bytes([HOLD]))
            assert await client.answer() == bytes([HOLD])
            # From here on the node waits for the client.
            again = asyncio.get_running_loop().time()
            system.listener.sweep(again + limits.NET_FRAME_SECONDS_MAX - 1)
            await client.send(bytes([1]))
            assert await client.answer() == bytes([ECHO, 1])

    asyncio.run(main())


def test_drain_lets_requests_finish() -> None:
    async def main() -> None:
        async with running() as system:
            idle, busy = await system.connect(), await system.connect()
            await idle.ask(bytes([ECHO]))
            await busy.send(sized(bytes([HOLD])))
            await system.until(lambda: bool(system.node.waiting))
            system.listener.stop_accepting()
            draining = asyncio.ensure_future(system.listener.drain(10))  # noqa: TID251
            assert await idle.is_cut_off()
            system.node.answer(bytes([HOLD]))
            assert await busy.answer() == bytes([HOLD])
            assert await draining == 0
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(("127.0.0.1", system.port), timeout=5)

    asyncio.run(main())


def test_drain_ends_in_time() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.send(sized(bytes([HOLD])))
            await system.until(lambda: bool(system.node.waiting))
            assert await system.listener.drain(0.05) == 1
            assert await client.is_cut_off()

    asyncio.run(main())


def test_every_interface_is_served_by_an_empty_host() -> None:
    async def main() -> None:
        async with running() as system:
            listener = Listener(
                ListenerSettings("ANY", "", 0),
                loop=asyncio.get_running_loop(),
                executor=system.listener.executor,
            )
            port = listener.bind()
            listener.start(system.node.dispatch)
            try:
                sock = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port), 5)
                sock.close()
                await system.until(lambda: listener.counts.accepted == 1)
            finally:
                listener.stop_accepting()
                listener.close_connections("the test is over")

    asyncio.run(main())
