"""Plots of a run: throughput with spread, percentiles of latency, memory over time.

They are drawn from the JSON that a run keeps, so that they can be drawn again from it.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from pathlib import Path

COLOURS: Final = {
    "kaa": "#2a7f62",
    "before": "#8a8a8a",
    "kafka": "#c0504d",
    "kafka-256m": "#e0a890",
}
NAMES: Final = {
    "kaa": "Kaa",
    "before": "Kaa before",
    "kafka": "Apache Kafka",
    "kafka-256m": "Apache Kafka, 256 MiB heap",
}
_DPI: Final = 90


def draw(content: dict[str, Any], folder: Path) -> list[Path]:
    """Draws what there is data for; gives the files."""
    found = []
    for name, plot in (("throughput", throughput), ("latency", latency), ("memory", memory)):
        path = folder / f"{name}.png"
        if plot(content, path):
            found.append(path)
    return found


def _save(figure: Any, path: Path, content: dict[str, Any]) -> None:
    run = content["run"]
    figure.text(
        0.995, 0.005, f"{run['date']}, {run['cores']} cores, {run['rounds']} rounds",
        ha="right", va="bottom", fontsize=7, color="grey",
    )  # fmt: skip
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})
    plt.close(figure)


def bars(title: str, figures: list[dict[str, Any]], path: Path) -> None:
    """The figures of a part beside their peers: the median of the rounds, and their range."""
    shown = [figure for figure in figures if figure["rounds"]]
    picture, all_axes = plt.subplots(
        1, len(shown), figsize=(4.6 * len(shown), 4), layout="constrained", squeeze=False
    )
    for axes, figure in zip(all_axes[0], shown, strict=True):
        sides = list(figure["rounds"])
        values = list(figure["rounds"].values())
        middles = [statistics.median(some) for some in values]
        below = [middle - min(some) for middle, some in zip(middles, values, strict=True)]
        above = [max(some) - middle for middle, some in zip(middles, values, strict=True)]
        colours = ["#2a7f62" if side == "kaa" else "#c0504d" for side in sides]
        axes.bar(sides, middles, 0.6, yerr=[below, above], capsize=4, color=colours)
        for peer, value in figure["peers"].items():
            if peer not in figure["rounds"]:
                axes.axhline(value, color="#c0504d", linestyle="--", label=f"{peer}: {value:g}")
        if figure["target"] is not None:
            axes.axhline(figure["target"], color="grey", linestyle=":", label="wanted")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
        axes.set_title(figure["name"].partition(", ")[0], fontsize=9)
        axes.set_ylabel(figure["unit"])
        axes.grid(axis="y", alpha=0.3)
    picture.suptitle(title, fontsize=10)
    picture.savefig(path, dpi=_DPI, metadata={"Software": None})
    plt.close(picture)


def throughput(content: dict[str, Any], path: Path) -> bool:
    """Bars of the cells that move as many bytes as they can."""
    figure, all_axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", squeeze=False)
    is_drawn = False
    for axes, verb in zip(all_axes[0], ("produce", "consume"), strict=True):
        cells = [
            cell
            for cell in content["cells"]
            if cell["name"].startswith(f"{verb}/librdkafka/") and "kaa" in cell["sides"]
        ]
        axes.set_title(f"{verb} with librdkafka")
        axes.set_xlabel("settings of the client")
        axes.set_ylabel("MB per second")
        for place, side in enumerate(("kaa", "kafka")):
            points = [
                (number, _values(cell, side, "mb_per_second"))
                for number, cell in enumerate(cells)
                if _values(cell, side, "mb_per_second")
            ]
            if not points:
                continue
            is_drawn = True
            middles = [statistics.median(values) for _, values in points]
            below = [
                middle - min(values) for middle, (_, values) in zip(middles, points, strict=True)
            ]
            above = [
                max(values) - middle for middle, (_, values) in zip(middles, points, strict=True)
            ]
            axes.bar(
                [number + place * 0.4 for number, _ in points], middles, 0.38,
                yerr=[below, above], capsize=2, color=COLOURS[side], label=NAMES[side],
            )  # fmt: skip
        labels = [cell["name"].rpartition("/")[2] for cell in cells]
        axes.set_xticks(
            [number + 0.2 for number in range(len(cells))], labels, rotation=40, ha="right"
        )
        axes.grid(axis="y", alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    if is_drawn:
        _save(figure, path, content)
    else:
        plt.close(figure)
    return is_drawn


def _values(cell: dict[str, Any], side: str, metric: str) -> list[float]:
    rounds = cell["sides"].get(side, {}).get("rounds", ())
    return [figures[metric] for figures in rounds if metric in figures]


def latency(content: dict[str, Any], path: Path) -> bool:
    """A curve of percentiles for each latency cell; the axis stretches towards all requests."""
    cells = [
        cell
        for cell in content["cells"]
        if cell["name"].startswith(("latency/", "catch-up/", "group-commit/", "connections/active"))
        and any(side.get("curve") for side in cell["sides"].values())
    ]
    if not cells:
        return False
    columns = min(3, len(cells))
    lines = -(-len(cells) // columns)
    figure, all_axes = plt.subplots(
        lines, columns, figsize=(4 * columns, 3.1 * lines), layout="constrained", squeeze=False
    )
    for axes, cell in zip(all_axes.flat, cells, strict=False):
        axes.set_title(cell["name"], fontsize=9)
        for side, found in cell["sides"].items():
            if found.get("curve"):
                nines = [1 / (1 - percent / 100) for percent, _ in found["curve"]]
                values = [max(value, 1e-3) for _, value in found["curve"]]
                axes.plot(nines, values, color=COLOURS[side], label=NAMES[side])
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([1, 2, 10, 100, 1_000, 10_000], ["0", "50", "90", "99", "99.9", "99.99"])
        axes.set_xlabel("percentile", fontsize=8)
        axes.set_ylabel("ms", fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    for axes in list(all_axes.flat)[len(cells) :]:
        axes.set_axis_off()
    all_axes[0][0].legend(fontsize=7)
    _save(figure, path, content)
    return True


def memory(content: dict[str, Any], path: Path) -> bool:
    """Resident memory of the brokers while cells were measured."""
    series = {side: points for side, points in content["memory"].items() if points}
    if not series:
        return False
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for side, points in series.items():
        axes.plot(
            [at / 60 for at, _ in points], [size for _, size in points],
            ".", markersize=2, color=COLOURS[side], label=NAMES[side],
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlabel("minutes of the run")
    axes.set_ylabel("resident MB")
    axes.set_title("Memory of the brokers under the same loads")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3, which="both")
    _save(figure, path, content)
    return True
