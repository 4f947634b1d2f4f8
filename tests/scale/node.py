"""A node of a size that few have, on a thread of its own, and a plain client beside it."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from kaa.broker.node import Broker, running
from kaa.cli.broker import GC_THRESHOLDS
from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.wire.frames import decode_response, encode_request
from kaa.wire.registry import api
from kaa.wire.schema import Request
from tests.scale.slices import SliceProbe


class Client:
    """One connection; requests are answered one after the other."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=300)

    def ask(
        self, request: Request[Any], version: int | None = None, *, decodes: bool = True
    ) -> Any:
        """The response; its bytes alone if the garbage of decoding it would be collected by the
        node, which is in the same process. In the newest version if none is named.
        """
        self.send(request, version)
        return self.receive(request, version, decodes=decodes)

    def send(self, request: Request[Any], version: int | None = None) -> None:
        version = api(request.api_key).served_versions().high if version is None else version
        parts = encode_request(request, version, 7, "scale")
        self._socket.sendall(b"".join(bytes(part) for part in parts))

    def receive(
        self, request: Request[Any], version: int | None = None, *, decodes: bool = True
    ) -> Any:
        """The answer to a request that was sent."""
        asked = api(request.api_key)
        (size,) = struct.unpack(">i", self._read(4))
        content = self._read(size)
        version = asked.served_versions().high if version is None else version
        return decode_response(content, asked, version)[1] if decodes else content

    def _read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            more = self._socket.recv(min(1 << 20, size - len(found)))
            assert more, "the node has closed the connection"
            found += more
        return bytes(found)

    def close(self) -> None:
        self._socket.close()


class ScaleNode:
    """As a context it runs; `probe` watches its loop from the first step of its start."""

    def __init__(self, folder: Path, *overrides: str) -> None:
        listeners = "listeners=PLAINTEXT://127.0.0.1:0"
        settings = development_settings(str(folder), overrides=[listeners, *overrides])
        self._config = load_broker_config(settings).config
        self.probe = SliceProbe()
        self.reports: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started: Future[Broker] = Future()
        self._stop: Future[Callable[[], object]] = Future()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            raise

    async def _serve(self) -> None:
        self.probe.thread_id = threading.get_ident()
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._stop.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        broker = Broker(self._config, report=self.reports.append, formats_empty=True)
        gc.set_threshold(*GC_THRESHOLDS)
        async with running(broker):
            gc.freeze()
            self._started.set_result(broker)
            await stop.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        self.broker = self._started.result(600)
        self.client = Client(self.broker.bootstrap_servers)
        return self

    def __exit__(self, *exception: object) -> None:
        self.client.close()
        begun = time.monotonic()
        self._stop.result()()
        self._thread.join(600)
        assert not self._thread.is_alive()
        self.stop_seconds = time.monotonic() - begun

    def call(self, work: Callable[[], Any]) -> Any:
        """Runs something on the loop of the node."""

        async def main() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(main(), self.broker.services.loop).result(300)
