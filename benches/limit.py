"""The limit: what the same bytes cost a bare loop of system calls on this machine.

`recv+pwrite` takes bytes from a socket into one buffer and writes them to a file; `sendfile` sends
them out of the file again. There is no protocol, no check, nothing to decide. The loop is a child
process, the other end of the socket another one, as with a broker and its client.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, Final

PIECE_BYTES: Final = 256 * 1024
LOOPS: Final = ("recv+pwrite", "sendfile")


def measure(size: int, rounds: int = 3) -> dict[str, dict[str, float]]:
    """By loop: the best of some rounds."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="kaa-limit-") as folder:
        for name in LOOPS:
            runs = [_run(name, f"{folder}/bytes", size) for _ in range(rounds)]
            found[name] = max(runs, key=lambda run: run["mb_per_second"])
    return found


def _run(name: str, path: str, size: int) -> dict[str, float]:
    with subprocess.Popen(
        [sys.executable, "-m", "benches.limit", name, path, str(size)],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as connection:
            if name == "sendfile":
                _swallow(connection)
            else:
                _pour(connection, size)
        result: dict[str, float] = json.loads(child.stdout.readline())
    return result


def _pour(connection: socket.socket, size: int) -> None:
    piece = memoryview(bytes(PIECE_BYTES))
    while size > 0:
        size -= connection.send(piece[: min(size, PIECE_BYTES)])


def _swallow(connection: socket.socket) -> None:
    buffer = bytearray(PIECE_BYTES)
    while connection.recv_into(buffer):
        pass


# --- the child


def serve(name: str, path: str, size: int) -> dict[str, Any]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        connection, _ = listening.accept()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    cpu_started, started = time.process_time(), time.perf_counter()
    with connection:
        if name == "sendfile":
            _send(connection, descriptor, size)
        else:
            _take(connection, descriptor)
    seconds = time.perf_counter() - started
    cpu_seconds = time.process_time() - cpu_started
    os.close(descriptor)
    return {
        "bytes": size,
        "mb_per_second": size / seconds / 1e6,
        "cpu_seconds_per_gb": cpu_seconds / size * 1e9,
    }


def _take(connection: socket.socket, descriptor: int) -> None:
    view = memoryview(bytearray(PIECE_BYTES))
    position = 0
    while count := connection.recv_into(view):
        os.pwrite(descriptor, view[:count], position)
        position += count


def _send(connection: socket.socket, descriptor: int, size: int) -> None:
    position = 0
    while position < size:
        position += os.sendfile(
            connection.fileno(), descriptor, position, min(PIECE_BYTES, size - position)
        )


if __name__ == "__main__":
    print(json.dumps(serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
