"""What a run tells: a table on the terminal, and a file in its storage for other terminals.

The file `_status.json` is rewritten and moved into place, so that a reader never sees half of
it. It says when it was written: a run that is older than a few seconds and says that it runs was
killed.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kaa.limits import PIPELINE_STALE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STATUS_FILE: Final = "_status.json"


@dataclass
class PartStatus:
    """One sink of a run."""

    name: str
    kind: str
    state: str = "starting"
    rows: int = 0
    rows_per_second: float = 0.0
    # Of queries the stored bytes that were read, estimated; of tables of topics what was written.
    size_bytes_per_second: float = 0.0
    batch: int = -1
    batch_seconds: float = 0.0
    # Records that are not read yet, by topic.
    lag: dict[str, int] = field(default_factory=dict)
    error: str | None = None


def update_from_progress(
    part: PartStatus, progress: dict[str, Any], record_bytes: Mapping[str, float]
) -> None:
    """Takes over what Spark says of a batch; it says nothing of bytes, so the mean size of the
    records of each topic has to do.
    """
    is_new = progress["batchId"] != part.batch
    if part.state == "starting":
        part.state = "running"
    part.batch = progress["batchId"]
    part.batch_seconds = progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
    part.rows_per_second = progress.get("processedRowsPerSecond") or 0.0
    if is_new:
        part.rows += progress.get("numInputRows", 0)
    size_bytes = 0.0
    for source in progress.get("sources", ()):
        reached, newest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        for topic, ends in newest.items():
            at = reached.get(topic, {})
            part.lag[topic] = sum(max(0, end - at.get(one, 0)) for one, end in ends.items())
        sizes = [record_bytes.get(topic, 0.0) for topic in reached]
        size_bytes += source.get("numInputRows", 0) * sum(sizes) / max(1, len(sizes))
    part.size_bytes_per_second = size_bytes / part.batch_seconds if part.batch_seconds else 0.0


def _offsets(text: Any) -> dict[str, dict[str, int]]:
    parsed = json.loads(text) if isinstance(text, str) else text
    if not isinstance(parsed, dict):
        return {}
    return {
        topic: {one: at for one, at in numbers.items() if isinstance(at, int)}
        for topic, numbers in parsed.items()
        if isinstance(numbers, dict) and not topic.startswith("@")
    }


def write_status(storage: Path, name: str, parts: list[PartStatus], *, is_running: bool) -> None:
    """Replaces the file of the run."""
    storage.mkdir(parents=True, exist_ok=True)
    document = {
        "name": name,
        "pid": os.getpid(),
        "time_ms": time.time_ns() // 1_000_000,
        "running": is_running,
        "sinks": [asdict(part) for part in parts],
    }
    temporary = storage / f"{STATUS_FILE}.{os.getpid()}"
    temporary.write_text(json.dumps(document))
    temporary.replace(storage / STATUS_FILE)


def read_status(storage: Path) -> dict[str, Any] | None:
    """What the last run said; `state` is running, stopped or lost."""
    try:
        document: dict[str, Any] = json.loads((storage / STATUS_FILE).read_text())
    except OSError:
        return None
    age = time.time() - document["time_ms"] / 1000
    document["age_seconds"] = age
    document["state"] = "stopped"
    if document["running"]:
        document["state"] = "running" if age < PIPELINE_STALE_SECONDS else "lost"
    return document


def table_rows(parts: list[PartStatus]) -> list[dict[str, Any]]:
    """One row for each sink, as commands show it."""
    return [
        {
            "sink": one.name,
            "kind": one.kind,
            "state": one.state,
            "rows": one.rows,
            "rows_per_second": round(one.rows_per_second),
            "mib_per_second": round(one.size_bytes_per_second / 2**20, 2),
            "batch": None if one.batch < 0 else one.batch,
            "batch_seconds": round(one.batch_seconds, 2),
            "lag": sum(one.lag.values()),
            "lag_by_source": ", ".join(f"{name} {lag}" for name, lag in sorted(one.lag.items())),
            "error": one.error,
        }
        for one in parts
    ]
