"""What processes cost, read from /proc.

`usage` is a snapshot of a process: processor time, resident memory, context switches over all its
threads. Two of them, before and after, give the cost of what happened between. A `Sampler` looks
at processes several times a second: at the memory of brokers, for its peak and its way over time,
and at the threads of load drivers, since a driver whose busiest thread has no time left measures
itself and not the broker.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

PROC: Final = Path("/proc")
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
INTERVAL_SECONDS: Final = 0.1
# Above this share of a core a thread counts as having no time left.
SATURATED_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Usage:
    """A process at one moment."""

    cpu_seconds: float
    resident_bytes: int
    context_switches: int
    descriptors: int
    # How long its threads were ready and had no processor: the noise of the machine.
    waited_seconds: float


def usage_of(pids: tuple[int, ...]) -> Usage:
    """Of processes that work together."""
    found = [usage(pid) for pid in pids]
    return Usage(
        cpu_seconds=sum(each.cpu_seconds for each in found),
        resident_bytes=sum(each.resident_bytes for each in found),
        context_switches=sum(each.context_switches for each in found),
        descriptors=sum(each.descriptors for each in found),
        waited_seconds=sum(each.waited_seconds for each in found),
    )


def usage(pid: int) -> Usage:
    folder = PROC / str(pid)
    return Usage(
        cpu_seconds=_cpu_seconds(folder / "stat"),
        resident_bytes=resident_bytes(pid),
        context_switches=sum(map(_switches, _threads(folder))),
        descriptors=sum(1 for _ in (folder / "fd").iterdir()),
        waited_seconds=sum(map(_waited_seconds, _threads(folder))),
    )


def resident_bytes(pid: int) -> int:
    return int((PROC / str(pid) / "statm").read_text().split()[1]) * PAGE_BYTES


def _threads(folder: Path) -> list[Path]:
    return list((folder / "task").iterdir())


def _cpu_seconds(stat: Path) -> float:
    # The name of the program stands in parentheses and may hold anything.
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def _switches(thread: Path) -> int:
    try:
        lines = (thread / "status").read_text().splitlines()
    except OSError:
        return 0  # It has ended since the folder was listed.
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def _waited_seconds(thread: Path) -> float:
    try:
        return int((thread / "schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0  # It has ended, or this kernel does not keep count.


class Sampler:
    """Watches processes while a block runs."""

    def __init__(self, *, brokers: tuple[int, ...] = (), drivers: tuple[int, ...] = ()) -> None:
        self._brokers = brokers
        self._drivers = list(drivers)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = time.monotonic()
        # Seconds since the start, and bytes.
        self.memory: list[tuple[float, int]] = []
        # By thread of a driver: when it was first and last seen, and its processor time then.
        self._busy: dict[tuple[int, str], tuple[float, float, float, float]] = {}

    def watch(self, driver_pid: int) -> None:
        """A driver that was started meanwhile."""
        self._drivers.append(driver_pid)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    @property
    def resident_bytes_max(self) -> int:
        return max((size for _, size in self.memory), default=0)

    @property
    def busiest_thread_share(self) -> float:
        """Of one core, over the time that the thread was seen."""
        return max(
            (
                (cpu - first_cpu) / (seen - first_seen)
                for first_seen, first_cpu, seen, cpu in self._busy.values()
                if seen - first_seen > 2 * INTERVAL_SECONDS
            ),
            default=0.0,
        )

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        try:
            resident = sum(resident_bytes(pid) for pid in self._brokers)
            self.memory.append((now - self._started, resident))
        except OSError:
            pass  # A broker that a cell stops and starts is not there all the time.
        for pid in tuple(self._drivers):
            self._look_at_driver(pid, now)

    def _look_at_driver(self, pid: int, now: float) -> None:
        try:
            for thread in _threads(PROC / str(pid)):
                cpu = _cpu_seconds(thread / "stat")
                first_seen, first_cpu, *_ = self._busy.get((pid, thread.name), (now, cpu))
                self._busy[pid, thread.name] = (first_seen, first_cpu, now, cpu)
        except OSError:
            return  # The driver, or one of its threads, has ended.
