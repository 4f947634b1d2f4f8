"""What a run of chaos comes to, as text and as a picture."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.chaos.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.chaos.story import Story

SHOWN_MAX = 20
TEXT_MAX = 3000


def lines(story: Story) -> Iterator[str]:
    """The report, Markdown."""
    counts = story.counts
    yield f"## {story.system}, seed {story.seed}: {story.seconds / 60:.1f} minutes"
    yield ""
    ended = ", ".join(
        f"{counts[f'transactions {name}']:,} {text}"
        for name, text in (("OK", "committed"), ("FAILED", "aborted"), ("UNKNOWN", "unknown"))
    )
    yield (
        f"{counts['operations']:,} operations: transactions {ended}; "
        f"{counts['sends acknowledged']:,} sends acknowledged, {counts['polled']:,} records "
        f"polled, {counts['commits']:,} commits, {counts['rebalances']:,} rebalances. "
        f"{len(story.spans)} faults, {len(story.anomalies)} anomalies, "
        f"{len(story.problems)} problems of nodes. "
        f"All replicas were in sync {story.healed_seconds:.1f} s after the last fault."
    )
    yield ""
    yield "| Fault | Times | Longest pause of a partition: median | worst |"
    yield "|---|---|---|---|"
    happened = Counter(span.fault for span in story.spans)
    pauses = story.longest_pauses()
    for fault in Fault:
        if happened[fault]:
            found = pauses[fault]
            middle, worst = statistics.median(found), max(found)
            yield f"| {fault.value} | {happened[fault]} | {middle:.1f} s | {worst:.1f} s |"
    anomalies = [str(anomaly) for anomaly in story.anomalies]
    for name, texts in (("Anomalies", anomalies), ("Problems", story.problems)):
        if texts:
            yield f"\n{name}:"
            yield from (f"- {text[:TEXT_MAX]}" for text in texts[:SHOWN_MAX])


def draw(story: Story, path: Path) -> None:
    """Operations a second over time, with the faults that were in force below."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    made: Any = plt.subplots(
        2, 1, sharex=True, figsize=(12, 6), height_ratios=(3, 2), layout="constrained"
    )
    figure, (above, below) = made
    rates = [
        (late, (after - before) / (late - early))
        for (early, before), (late, after) in zip(story.samples, story.samples[1:], strict=False)
    ]
    above.plot([moment for moment, _ in rates], [rate for _, rate in rates], linewidth=0.8)
    for began, length, _ in story.pauses():
        if length > 1:
            above.axvspan(began, began + length, color="tab:red", alpha=0.08, linewidth=0)
    above.set_ylabel("operations a second")
    above.set_ylim(bottom=0)
    above.set_title(
        f"{story.system}, seed {story.seed}: {len(story.spans)} faults, "
        f"{len(story.anomalies)} anomalies; red: a partition acknowledged nothing for a second"
    )
    kinds = [fault for fault in Fault if any(span.fault is fault for span in story.spans)]
    for row, fault in enumerate(kinds):
        spans = [
            (span.began, span.ended - span.began) for span in story.spans if span.fault is fault
        ]
        below.broken_barh(spans, (row - 0.4, 0.8), color=f"C{row % 10}")
    below.set_yticks(range(len(kinds)), [fault.value for fault in kinds])
    below.set_xlabel("seconds")
    below.invert_yaxis()
    figure.savefig(path, dpi=90)
    plt.close(figure)
