"""One run of chaos: clients work, faults come and go, everything is healed, and all is compared."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.chaos.faults import Fault, Faults, Span, possible
from tests.chaos.machines import Machines
from tests.chaos.workload import ChaosWorkload
from tests.histories.model import Anomaly

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.chaos.machines import System

SAMPLE_SECONDS = 0.5
HEALED_SECONDS_MAX = 240.0


@dataclass
class Story:
    """What happened; times are seconds since the faults began."""

    system: System
    seed: int
    seconds: float = 0.0
    spans: list[Span] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    # Nodes that ended, did not stop or complained without being asked to.
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    # When, how many operations of all clients had ended by then.
    samples: list[tuple[float, int]] = field(default_factory=list)
    # When something of a partition was acknowledged.
    acknowledged: list[tuple[float, int]] = field(default_factory=list)
    healed_seconds: float = 0.0

    @property
    def is_sound(self) -> bool:
        return not self.anomalies and not self.problems

    def pauses(self) -> list[tuple[float, float, int]]:
        """Times in which a partition acknowledged nothing: beginning, seconds, partition."""
        last: dict[int, float] = {}
        found = []
        for moment, partition in sorted(self.acknowledged):
            before = last.get(partition, moment)
            found.append((before, moment - before, partition))
            last[partition] = moment
        return found

    def longest_pauses(self) -> dict[Fault, list[float]]:
        """For each fault of a kind, the longest pause of a partition that began in it."""
        pauses = [pause for pause in self.pauses() if pause[1] > SAMPLE_SECONDS / 10]
        found: dict[Fault, list[float]] = {}
        for span in self.spans:
            inside = [
                length
                for began, length, _ in pauses
                if span.began - SAMPLE_SECONDS < began < span.ended
            ]
            found.setdefault(span.fault, []).append(max(inside, default=0.0))
        return found


def tell(
    folder: Path,
    system: System,
    seed: int,
    seconds: float,
    kinds: Sequence[Fault] = (),
    *,
    is_combined: bool = False,
) -> Story:
    """Runs it; at least one fault happens, however short the time."""
    story = Story(system, seed)
    with Machines(folder, system, is_combined=is_combined) as machines:
        workload = ChaosWorkload(machines.bootstrap_servers, seed)
        faults = Faults(machines, seed, kinds or possible())
        began = time.monotonic()
        workload.begin()
        is_over = threading.Event()

        def sample() -> None:
            while not is_over.wait(SAMPLE_SECONDS):
                story.samples.append((time.monotonic() - began, workload.operation_count()))

        sampling = threading.Thread(target=sample, daemon=True)
        sampling.start()
        try:
            while time.monotonic() < began + seconds or not faults.happened:
                faults.next()
            story.seconds = time.monotonic() - began
            if not machines.until_in_sync(HEALED_SECONDS_MAX):
                story.anomalies.append(Anomaly("liveness", "replicas did not catch up"))
            story.healed_seconds = time.monotonic() - began - story.seconds
            story.anomalies += workload.finish()
        finally:
            is_over.set()
            workload.is_over.set()
            sampling.join()
        story.problems = [*faults.problems, *machines.complaints()]
    story.spans = faults.happened
    story.acknowledged = [(moment - began, number) for moment, number in workload.acknowledged]
    story.counts = _counts(workload)
    return story


def _counts(workload: ChaosWorkload) -> Counter[str]:
    counts = Counter(workload.counts)
    for operation in workload.transactions.operations:
        if operation.is_transaction:
            counts[f"transactions {operation.outcome.name}"] += 1
    for operation in (*workload.transactions.operations, *workload.operations):
        counts["polled"] += sum(len(poll.records) for poll in operation.polls())
    counts["operations"] = workload.operation_count()
    counts["sends acknowledged"] = len(workload.acknowledged)
    return counts
