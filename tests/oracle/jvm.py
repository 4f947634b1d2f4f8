"""A JVM of ours with Kafka's classes in it, shared by every process that knows its folder.

The first process that needs the JVM starts it, under a lock on the folder; the others connect. The
JVM counts its connections and ends a while after the last one is gone, taking its folder with it:
so it outlives any single test worker and never outlives the run, not even when the run is killed.

Folder of one JVM:

| file | what it is |
|---|---|
| `socket` | unix socket it listens on |
| `log` | what it printed |
| others | of its user, such as the log directories of a broker |

Frame, both ways: int32 length, then that many bytes of JSON, with bytes as base64. A request is
{"op": name, "items": [...]}; its answer has {"ok": value} or {"error": {...}} for each item, in
order.
"""

import base64
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from kaa.wire.primitives import Uuid
from tests.oracle.environment import (
    Progress,
    alive,
    cache_folder,
    command,
    locked,
    silent,
    wait_until,
)
from tests.oracle.maven import PARTIAL, Artifact, jars
from tests.oracle.model import JavaError

IDLE_MS: Final = 5_000
START_SECONDS_MAX: Final = 60
CALL_SECONDS_MAX: Final = 120
FRAME_ITEMS_MAX: Final = 1_000
_SOURCES: Final = Path(__file__).parent / "java"
_LENGTH: Final = struct.Struct(">i")


class JvmLostError(Exception):
    """The JVM did not start or went away; the message ends with what it printed last."""


class Jvm:
    """One connection to the JVM of a folder."""

    def __init__(self, folder: Path, connection: socket.socket) -> None:
        self.folder = folder
        self._socket = connection
        self._turn = threading.Lock()

    @classmethod
    def shared(
        cls,
        folder: Path,
        heap_mb: int,
        progress: Progress = silent,
        more: tuple[Artifact, ...] = (),
    ) -> Self:
        """Connect to the JVM of the folder, and start it first if it does not run, with `more`
        jars than Kafka's own.
        """
        java = java_command(heap_mb, progress, more)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(folder):
            return cls(folder, _connect(folder) or _start(folder, java))

    @classmethod
    def running(cls, folder: Path) -> Self | None:
        """Connect to the JVM of the folder if it runs."""
        connection = _connect(folder)
        return cls(folder, connection) if connection else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the JVM; it ends by itself when everyone has left."""
        self._socket.close()

    def stop(self) -> None:
        """End the JVM now, no matter who else uses it, and wait until its folder is gone."""
        with self._turn, suppress(JvmLostError):
            self._send({"op": "stop", "items": [None]})
            self._receive()

    def call(
        self, operation: str, items: Sequence[Any], timeout_s: float = CALL_SECONDS_MAX
    ) -> list[Any]:
        """Ask about each item; a refused item has a JavaError as its answer."""
        answers: list[Any] = []
        with self._turn:
            self._socket.settimeout(timeout_s)
            for start in range(0, len(items), FRAME_ITEMS_MAX):
                self._send({"op": operation, "items": items[start : start + FRAME_ITEMS_MAX]})
                answers += (_answer(answer) for answer in self._receive())
        return answers

    def call_one(
        self, operation: str, item: Any = None, timeout_s: float = CALL_SECONDS_MAX
    ) -> Any:
        """Ask about one item; a refusal is raised."""
        [answer] = self.call(operation, [item], timeout_s)
        if isinstance(answer, JavaError):
            raise answer
        return answer

    def _send(self, request: dict[str, Any]) -> None:
        payload = json.dumps(request, default=to_json).encode()
        try:
            self._socket.sendall(_LENGTH.pack(len(payload)) + payload)
        except OSError as error:
            raise self._lost(error) from error

    def _receive(self) -> list[dict[str, Any]]:
        (length,) = _LENGTH.unpack(self._receive_exactly(_LENGTH.size))
        answers: list[dict[str, Any]] = json.loads(self._receive_exactly(length))
        return answers

    def _receive_exactly(self, length: int) -> bytearray:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            try:
                count = self._socket.recv_into(view)
            except OSError as error:
                raise self._lost(error) from error
            if count == 0:
                raise self._lost("connection closed")
            view = view[count:]
        return data

    def _lost(self, reason: object) -> JvmLostError:
        self._socket.close()
        return JvmLostError(f"{reason}\n{_log_tail(self.folder)}")


def _connect(folder: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(folder / "socket"))
    except OSError:
        connection.close()
        return None
    return connection


def _start(folder: Path, java: list[str]) -> socket.socket:
    path = folder / "socket"
    path.unlink(missing_ok=True)
    pid = _spawn([*java, "kaa.oracle.Server", str(path), str(IDLE_MS)], folder / "log")
    connection: socket.socket | None = None

    def started_or_dead() -> bool:
        nonlocal connection
        connection = _connect(folder)
        return connection is not None or not alive(pid)

    wait_until(started_or_dead, START_SECONDS_MAX)
    if connection is None:
        raise JvmLostError(f"the JVM did not start\n{_log_tail(folder)}")
    return connection


def _log_tail(folder: Path) -> str:
    try:
        return (folder / "log").read_text(errors="replace")[-4000:]
    except FileNotFoundError:
        return ""


def java_command(
    heap_mb: int, progress: Progress = silent, more: tuple[Artifact, ...] = ()
) -> list[str]:
    """The start of a command line; the JVM is tuned to start quickly and to stay small."""
    return [
        command("java", "run Kafka"),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-Dfile.encoding=UTF-8",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={_SOURCES / 'log4j2.properties'}",
        "-cp",
        class_path(progress, more),
    ]


def _spawn(arguments: list[str], log: Path) -> int:
    """Start a process that belongs to nobody: a shell puts it into the background and ends."""
    script = 'log=$1; shift; "$@" >"$log" 2>&1 </dev/null & echo $!'
    started = subprocess.run(
        ["/bin/sh", "-c", script, "sh", str(log), *arguments],
        capture_output=True,
        check=True,
        text=True,
        start_new_session=True,
    )
    return int(started.stdout)


def class_path(progress: Progress = silent, more: tuple[Artifact, ...] = ()) -> str:
    """Kafka's jars and our compiled classes, as `java -cp` wants them."""
    folder = jars(progress)
    paths = [compiled(folder, progress), *sorted(folder.glob("*.jar"))]
    if more:
        paths += sorted(jars(progress, more).glob("*.jar"))
    return os.pathsep.join(map(str, paths))


def compiled(jar_folder: Path, progress: Progress = silent) -> Path:
    """The folder of our compiled classes; its name is a hash of their sources."""
    sources = sorted(_SOURCES.rglob("*.java"))
    digest = hashlib.sha256(jar_folder.name.encode())
    for source in sources:
        digest.update(source.read_bytes())
    cache = cache_folder()
    folder = cache / f"classes-{digest.hexdigest()[:12]}"
    if not folder.is_dir():
        with locked(cache):
            if not folder.is_dir():
                progress("compiling the oracle")
                _compile(sources, jar_folder, folder)
    return folder


def _compile(sources: list[Path], jar_folder: Path, folder: Path) -> None:
    work = folder.with_name(f"{PARTIAL}{folder.name}")
    done = subprocess.run(
        [
            command("javac", "compile the oracle"),
            *("--release", "17", "-proc:none", "-Xlint:all", "-Werror"),
            *("-cp", f"{jar_folder}/*", "-d", str(work)),
            *map(str, sources),
        ],
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode != 0:
        shutil.rmtree(work, ignore_errors=True)
        raise JvmLostError(f"our Java code does not compile\n{done.stderr}")
    work.rename(folder)


def to_json(value: object) -> object:
    """What JSON has no form for, in the form Kafka's converters expect."""
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _answer(answer: dict[str, Any]) -> Any:
    if "error" in answer:
        return JavaError.from_json(answer["error"])
    return answer["ok"]


def stop_running(run_folder: Path) -> None:
    """End every JVM of a run at once."""
    for path in run_folder.glob("*/socket"):
        if jvm := Jvm.running(path.parent):
            jvm.stop()
