"""A figure of a benchmark, and how figures are shown and kept."""

from __future__ import annotations

import json
import platform
import statistics
import time
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from rich.console import Console
from rich.table import Table

from kaa.interpreter import build

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).parent / "results"


@dataclass
class Figure:
    """One measured value: ahead or behind is judged against `peers` or, without them, `target`."""

    name: str
    value: float
    unit: str
    # By the name of the peer: its value in the same unit and the same run.
    peers: dict[str, float] = field(default_factory=dict)
    target: float | None = None
    higher_is_better: bool = True
    # What each round of kaa and of the peers measured: for the plot, which shows their spread.
    rounds: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, other: float) -> float:
        """How many times better than `other`; below 1 is worse."""
        return self.value / other if self.higher_is_better else other / self.value

    @property
    def verdict(self) -> str:
        others = [*self.peers.values()] if self.peers else []
        if self.target is not None:
            others.append(self.target)
        if not others:
            return ""
        return "ahead" if all(self.ratio(other) >= 1 for other in others) else "behind"


# By what was measured and its unit; more is better where the unit is a rate.
Measured: TypeAlias = dict[tuple[str, str], float]
_RATES: Final = frozenset({"MB/s", "records/s"})


def beside(kaa: Measured, peer: Measured, peer_name: str) -> list[Figure]:
    """The figures of Kaa, each with that of the peer where it has one."""
    return [
        Figure(
            name,
            value,
            unit,
            {peer_name: peer[name, unit]} if (name, unit) in peer else {},
            higher_is_better=unit in _RATES,
        )
        for (name, unit), value in kaa.items()
    ]


def best_microseconds(
    calls: dict[str, Callable[[], object]], *, rounds: int = 15
) -> dict[str, float]:
    """The least time of one call of each."""
    times = round_microseconds(calls, rounds=rounds)
    return {name: min(values) for name, values in times.items()}


def round_microseconds(
    calls: dict[str, Callable[[], object]], *, rounds: int = 15
) -> dict[str, list[float]]:
    """The time of one call of each in every round, in turn, so that a busy moment of the machine
    hits all alike.
    """
    numbers = {}
    for name, call in calls.items():
        started = time.perf_counter()
        call()
        numbers[name] = max(1, int(0.01 / (time.perf_counter() - started)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            number = numbers[name]
            started = time.perf_counter()
            for _ in range(number):
                call()
            times[name].append((time.perf_counter() - started) / number * 1e6)
    return times


def median_milliseconds(run: Callable[[], object], *, rounds: int = 9) -> float:
    """The median time of `run`, for things that are measured in a process of their own."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def machine() -> dict[str, str]:
    """What a reader needs to place the figures."""
    processor = platform.processor() or "unknown"
    for line in (
        Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    ):
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    packages = ("kaa", "kio", "kafka-python", "pyarrow", "cython")
    found = {name: metadata.version(name) for name in packages if _is_installed(name)}
    return {"python": str(build()), "processor": processor, **found}


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def report(part: str, title: str, figures: list[Figure]) -> None:
    """Prints the figures of a part as a table and keeps them under `benches/results`."""
    date = time.strftime("%Y-%m-%d", time.gmtime())
    facts = machine()
    peers = sorted({peer for figure in figures for peer in figure.peers})
    header = ["figure", "kaa", "unit", *peers, "target", "verdict"]
    rows = [
        [
            figure.name,
            _number(figure.value),
            figure.unit,
            *(_peer(figure, peer) for peer in peers),
            "" if figure.target is None else _number(figure.target),
            figure.verdict,
        ]
        for figure in figures
    ]
    table = Table(*header, title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)
    RESULTS.mkdir(exist_ok=True)
    content = {"date": date, "machine": facts, "figures": [_kept(figure) for figure in figures]}
    (RESULTS / f"{part}.json").write_text(json.dumps(content, indent=1) + "\n")
    lines = [f"# {title}", "", f"{date}; " + ", ".join(f"{k} {v}" for k, v in facts.items()), ""]
    lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    (RESULTS / f"{part}.md").write_text("\n".join(lines) + "\n")
    if any(figure.rounds for figure in figures):
        from benches.plots import bars

        bars(title, [_kept(figure) for figure in figures], RESULTS / f"{part}.png")


def _kept(figure: Figure) -> dict[str, object]:
    return {**asdict(figure), "verdict": figure.verdict}


def _peer(figure: Figure, peer: str) -> str:
    if peer not in figure.peers:
        return ""
    other = figure.peers[peer]
    return f"{_number(other)} ({figure.ratio(other):.1f}x)"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
