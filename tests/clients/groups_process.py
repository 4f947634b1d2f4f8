"""A member of librdkafka in a process of its own, so that it can be killed.

Within one process librdkafka knows no end without a goodbye to the coordinator. So a driver has
most of its members in threads, and those that are going to die here.

The process tells the audit of the driver what it owns and reads, one call per line of JSON on its
standard output, and goes on when the answer, an empty line, came on its standard input. Thus the
audit knows of a partition that was given up before the coordinator does. Other lines of the input
are orders: `pause SECONDS` and `leave`. The end of the input is the end of the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterable
from typing import Any

from tests.clients.groups import Audit, LibrdkafkaMember
from tests.support.pace import PATIENCE_SECONDS


class LibrdkafkaProcess:
    """The side of the driver: it looks like a member in a thread."""

    def __init__(
        self, audit: Audit, bootstrap: str, topic: str, name: str, **settings: Any
    ) -> None:
        self.audit = audit
        self.name = name
        self._lock = threading.Lock()
        arguments = [bootstrap, topic, name, json.dumps(settings)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.clients.groups_process", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # It died in the middle of a word.
            what, argument = json.loads(line)
            if what == "note":
                self.audit.note(argument.encode())
            else:
                getattr(self.audit, what)(self.name, argument)
            try:
                self._say("")
            except BrokenPipeError:
                continue  # It died; what it said before it did is true all the same.

    def pause(self, seconds: float) -> None:
        self._say(f"pause {seconds}")

    def leave(self) -> None:
        self._say("leave")
        code = self._process.wait(PATIENCE_SECONDS)
        self._forget()
        assert code == 0, f"{self.name} ended with {code}"

    def crash(self) -> None:
        """Is gone, and says no goodbye."""
        self._process.kill()
        self._process.wait()
        self._forget()

    def _forget(self) -> None:
        """Once all that it said has been heard, it owns nothing any more."""
        self._listener.join()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self.audit.gone(self.name)


class DistantAudit(Audit):
    """The side of the process: every call goes to the driver, and returns once it is heard."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = threading.Lock()
        self.answers: queue.SimpleQueue[None] = queue.SimpleQueue()

    def _call(self, what: str, argument: Any) -> None:
        with self._calls:
            sys.stdout.write(f"{json.dumps([what, argument])}\n")
            sys.stdout.flush()
            self.answers.get()

    def assigned(self, member: str, partitions: Iterable[int]) -> None:
        self._call("assigned", list(partitions))

    def revoked(self, member: str, partitions: Iterable[int]) -> None:
        self._call("revoked", list(partitions))

    def note(self, value: bytes) -> None:
        self._call("note", value.decode())


def main() -> None:
    bootstrap, topic, name, settings = sys.argv[1:]
    threading.excepthook = die
    audit = DistantAudit()
    member = LibrdkafkaMember(audit, bootstrap, topic, name, **json.loads(settings))
    for line in sys.stdin:
        match line.split():
            case ["pause", seconds]:
                member.pause(float(seconds))
            case ["leave"]:
                # The answers to what it says on its way out are heard here.
                threading.Thread(target=leave, args=(member,), daemon=True).start()
            case _:
                audit.answers.put(None)
    os._exit(1)


def leave(member: LibrdkafkaMember) -> None:
    member.leave()
    os._exit(0)


def die(failure: threading.ExceptHookArgs) -> None:
    """No thread fails unnoticed."""
    traceback.print_exception(failure.exc_value)
    os._exit(2)


if __name__ == "__main__":
    main()
