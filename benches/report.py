"""What a run of cells says, on the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from benches.brokers import BEFORE, KAA, KAFKA_SMALL
from benches.cells import COMMON, METRICS
from benches.figure import machine
from benches.histogram import Latencies
from benches.verdicts import significant
from kaa.wire.version import KAFKA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benches.cells import Cell
    from benches.runner import Outcome, Results
    from benches.verdicts import Spread

RESULTS: Final = Path(__file__).parent / "results"
MEMORY_POINTS_MAX: Final = 200
_WIDTH: Final = 150


def facts(results: Results) -> dict[str, Any]:
    """What a reader needs to place the figures."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "mode": results.scale.name,
        "seconds": round(results.seconds),
        "rounds": results.scale.rounds,
        "cores": os.cpu_count(),
        "memory_gb": round(total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": [round(value, 2) for value in os.getloadavg()],
        **{key: value for key, value in machine().items() if key in {"python", "processor", "kaa"}},
        "kafka": KAFKA_VERSION,
        "confluent-kafka": metadata.version("confluent-kafka"),
    }


# --- verdicts


def metrics_of(cell: Cell) -> tuple[str, ...]:
    return (*cell.metrics, *(metric for metric in COMMON if metric not in cell.metrics))


def peers_of(cell: Cell) -> tuple[str, ...]:
    return tuple(side for side in cell.sides if side != KAA)


def not_measured(outcome: Outcome) -> str:
    """Why the cell has no verdict; empty if it has one."""
    for side in outcome.cell.sides[:2]:
        if side in outcome.reasons:
            return f"not measured: {outcome.reasons[side]}"
    return ""


def verdicts(results: Results) -> dict[str, Any]:
    """By cell and metric, for machines."""
    return {
        "run": facts(results),
        "cells": {
            outcome.cell.name: _cell_verdicts(outcome, results.box.cuts)
            for outcome in results.outcomes
        },
    }


def _cell_verdicts(outcome: Outcome, cuts: dict[str, str]) -> dict[str, Any]:
    cell = outcome.cell
    found: dict[str, Any] = {"metric": cell.metrics[0], "verdict": "none", "ratio": None}
    if reason := not_measured(outcome):
        found["reason"] = reason
    if cell.name in cuts:
        found["cut"] = cuts[cell.name]
    first = outcome.verdict(cell.metrics[0], peers_of(cell)[0])
    if first is not None and not reason:
        found |= first.to_json()
    found["metrics"] = {}
    for metric in metrics_of(cell):
        sides = {side: outcome.spread(side, metric) for side in cell.sides}
        if sides[KAA] is None:
            continue
        entry: dict[str, Any] = {
            "unit": METRICS[metric].unit,
            "higher_is_better": METRICS[metric].higher_is_better,
            **{side: spread.to_json() for side, spread in sides.items() if spread is not None},
        }
        for peer in peers_of(cell):
            verdict = outcome.verdict(metric, peer)
            if verdict is not None:
                entry[f"beside {peer}"] = verdict.to_json()
        found["metrics"][metric] = entry
    return found


# --- raw results


def raw(results: Results, limit: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": facts(results),
        "limit": limit,
        "cells": [_raw_cell(outcome) for outcome in results.outcomes],
        "cut": results.box.cuts,
        "memory": {side: _thinned(points) for side, points in results.memory.items()},
    }


def _raw_cell(outcome: Outcome) -> dict[str, Any]:
    cell = outcome.cell
    return {
        "name": cell.name,
        "record_bytes": cell.load.record_bytes,
        "acks": cell.load.acks,
        "partitions": cell.load.partitions,
        "compression": cell.load.compression,
        "options": cell.options,
        "reasons": outcome.reasons,
        "sides": {
            side: {
                "rounds": [
                    {name: significant(value) for name, value in run.figures.items()}
                    for run in runs
                ],
                "curve": curve(outcome, side),
                "driver_saturated": sum(run.is_driver_saturated for run in runs),
            }
            for side, runs in outcome.runs.items()
        },
    }


def curve(outcome: Outcome, side: str) -> list[tuple[float, float]]:
    """The latencies of all rounds together."""
    together = Latencies()
    for run in outcome.runs.get(side, ()):
        if run.latencies:
            together.add(run.latencies)
    return together.curve() if together.count else []


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    step = max(1, len(points) // MEMORY_POINTS_MAX)
    return [(at, significant(size)) for at, size in points[::step]]


# --- tables


def text_of(spread: Spread | None) -> str:
    if spread is None:
        return ""
    half = f" ±{number(spread.half)}" if spread.rounds > 1 else ""
    return number(spread.median) + half


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def peer_name(results: Results) -> str:
    """Whom Kaa is measured beside."""
    is_earlier = any(BEFORE in outcome.cell.sides for outcome in results.outcomes)
    return "Kaa before" if is_earlier else f"Apache Kafka {KAFKA_VERSION}"


def header(results: Results) -> tuple[str, ...]:
    return ("cell", "metric", "unit", "Kaa", peer_name(results), "Kafka 256 MiB", "verdict")


COST_HEADER: Final = (
    "cell",
    "CPU s/GB",
    "CPU s/million requests",
    "memory MB",
    "context switches",
    "waited s",
    "machine late ms",
    "loop lag p99.9 ms",
    "driver CPU s",
    "busiest driver thread",
)


def rows(results: Results) -> list[list[str]]:
    """A row for each metric of each cell, the deciding one first."""
    found = []
    for outcome in results.outcomes:
        cell, reason = outcome.cell, not_measured(outcome)
        for place, metric in enumerate(cell.metrics):
            ours = outcome.spread(KAA, metric)
            if place and (ours is None or reason):
                continue
            peer = peers_of(cell)[0]
            verdict = outcome.verdict(metric, peer)
            found.append(
                [
                    cell.name if place == 0 else "",
                    metric,
                    METRICS[metric].unit,
                    text_of(ours),
                    text_of(outcome.spread(peer, metric)),
                    text_of(outcome.spread(KAFKA_SMALL, metric)),
                    reason or ("" if verdict is None else str(verdict)),
                ]
            )
    return found


def cost_rows(results: Results) -> list[list[str]]:
    """What each cell cost: Kaa, then Kafka."""
    found = []
    for outcome in results.outcomes:
        if not_measured(outcome):
            continue
        lag = outcome.spread(KAA, "lag_p99.9_ms")
        found.append(
            [
                outcome.cell.name,
                _pair(outcome, "cpu_seconds_per_gb"),
                _pair(outcome, "cpu_seconds_per_million_requests"),
                _pair(outcome, "resident_mb_max"),
                _pair(outcome, "context_switches"),
                _pair(outcome, "broker_waited_seconds"),
                _pair(outcome, "machine_late_max_ms"),
                "" if lag is None else number(lag.median),
                _pair(outcome, "driver_cpu_seconds"),
                _pair(outcome, "driver_busiest_share") + _saturated(outcome),
            ]
        )
    return found


def _pair(outcome: Outcome, metric: str) -> str:
    ours = outcome.spread(KAA, metric)
    theirs = outcome.spread(peers_of(outcome.cell)[0], metric)
    if ours is None or theirs is None:
        return ""
    return f"{number(ours.median)} : {number(theirs.median)}"


def _saturated(outcome: Outcome) -> str:
    sides = [
        side
        for side, runs in outcome.runs.items()
        if 2 * sum(run.is_driver_saturated for run in runs) > len(runs)
    ]
    return f" (saturated by {', '.join(sides)})" if sides else ""


def print_table(results: Results, console: Console | None = None) -> None:
    console = console or Console(width=_WIDTH)
    table = Table(*header(results), title=f"Kaa beside {peer_name(results)}")
    colours = {"ahead": "green", "even": "yellow", "behind": "red"}
    for row in rows(results):
        colour = colours.get(row[6].partition(" ")[0], "dim")
        table.add_row(*row[:6], f"[{colour}]{row[6]}[/]")
    costs = Table(*COST_HEADER, title=f"What it cost, Kaa : {peer_name(results)}")
    # The names of cells, and which side was saturated, are worth more than the width of figures.
    costs.columns[0].no_wrap = costs.columns[-1].no_wrap = True
    for row in cost_rows(results):
        costs.add_row(*row)
    console.print(table, costs)
    console.print(summary(results))
    for name, why in results.box.cuts.items():
        console.print(f"cut by the time box: {name} ({why})")


def summary(results: Results) -> str:
    words = [_cell_verdicts(outcome, results.box.cuts)["verdict"] for outcome in results.outcomes]
    counts = {word: words.count(word) for word in ("ahead", "even", "behind")}
    return (
        f"{counts['ahead']} ahead, {counts['even']} even, {counts['behind']} behind, "
        f"{len(words) - sum(counts.values())} without a verdict"
    )


_HOW_TO_READ: Final = """\
Medians with half the distance between best and worst round. The verdict compares Kaa with Kafka at
its default heap, round by round: the median of the ratios, their interval of 95 per cent, and how
sure it is that the two differ; *even* where that is below 95 per cent. A driver is saturated if its
busiest thread had no time left: then throughput is a lower bound for the broker, and its CPU
seconds tell more. How long the threads of a broker were ready and had no processor (*waited*) is
the noise of the machine; so is the longest stall that a sleeper of real-time priority saw meanwhile
(*machine late*), which no broker can be quicker than."""
_LIMIT: Final = """\
What the same bytes cost a bare loop: `recv` and `pwrite` into a file, and `sendfile` out of it,
over loopback, without a protocol. Beside it the broker with the baseline load."""


def markdown(results: Results, limit: dict[str, Any], left_out: list[str]) -> str:
    run = facts(results)
    lines = [f"# Kaa beside {peer_name(results)}: `{results.scale.name}`", ""]
    lines.append(
        f"{run['date']}, {run['seconds']} s, {run['rounds']} rounds, load average "
        f"{run['load_average'][0]} at the end; {run['cores']} cores ({run['processor']}), "
        f"{run['memory_gb']} GB, {run['system']}; Python {run['python']}, "
        f"Kaa {run.get('kaa', 'from source')}, confluent-kafka {run['confluent-kafka']}."
    )
    lines += ["", _HOW_TO_READ, "", f"**{summary(results)}.**", ""]
    lines += _markdown_table(header(results), rows(results))
    lines += ["", f"## What it cost, Kaa : {peer_name(results)}", ""]
    lines += _markdown_table(COST_HEADER, cost_rows(results))
    lines += ["", "## The limit of this machine", "", _LIMIT, ""]
    lines += _markdown_table(("loop", "MB/s", "CPU s/GB"), limit_rows(results, limit))
    lines += ["", "## What is not here", ""]
    lines += [f"- cut by the time box: {name} ({why})" for name, why in results.box.cuts.items()]
    lines += [f"- not part of `{results.scale.name}`: {name}" for name in left_out]
    if not results.box.cuts and not left_out:
        lines.append("Nothing: every cell ran.")
    return "\n".join(lines) + "\n"


def _markdown_table(header: Sequence[str], content: list[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in content),
    ]


def limit_rows(results: Results, limit: dict[str, Any]) -> list[list[str]]:
    found = [
        [name, number(each["mb_per_second"]), number(each["cpu_seconds_per_gb"])]
        for name, each in limit.items()
    ]
    for outcome in results.outcomes:
        if outcome.cell.name in {"produce/librdkafka/baseline", "consume/librdkafka/baseline"}:
            for side in outcome.runs:
                figures = (
                    text_of(outcome.spread(side, metric))
                    for metric in ("mb_per_second", "cpu_seconds_per_gb")
                )
                found.append([f"{side}, {outcome.cell.name}", *figures])
    return found


def keep(results: Results, limit: dict[str, Any], left_out: list[str], folder: Path) -> None:
    """Writes JSON, Markdown and verdicts; those of named cells do not replace those of all."""
    folder.mkdir(parents=True, exist_ok=True)
    name = results.scale.name
    _write(folder / f"{name}.json", raw(results, limit))
    (folder / f"{name}.md").write_text(markdown(results, limit, left_out))
    _write(folder / "verdicts.json", verdicts(results) | {"left_out": left_out})


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=None, separators=(",", ":")) + "\n")
