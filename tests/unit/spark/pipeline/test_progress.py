"""What a run tells of itself."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kaa.spark.pipeline import progress as module
from kaa.spark.pipeline.progress import (
    PartStatus,
    read_status,
    table_rows,
    update_from_progress,
    write_status,
)

PROGRESS = {
    "batchId": 0,
    "numInputRows": 10,
    "processedRowsPerSecond": 5.0,
    "durationMs": {"triggerExecution": 2000},
    "sources": [
        {
            "numInputRows": 10,
            "endOffset": '{"@start": {"t": {"0": 0}}, "t": {"0": 10, "1": 5}}',
            "latestOffset": '{"t": {"0": 12, "1": 5, "2": 3}}',
        },
        {"endOffset": None, "latestOffset": "null"},
    ],
}


def test_progress_of_spark() -> None:
    part = PartStatus("sink", "topic")
    sizes = {"t": 1000.0, "other": 7.0}
    update_from_progress(part, PROGRESS, sizes)
    update_from_progress(part, PROGRESS, sizes)
    assert part.size_bytes_per_second == 10 * 1000.0 / 2
    assert (part.rows, part.lag, part.batch_seconds) == (10, {"t": 5}, 2.0)
    update_from_progress(part, {**PROGRESS, "batchId": 1}, {})
    assert (part.rows, part.batch) == (20, 1)
    part.lag["s"] = 2
    row = table_rows([part])[0]
    assert (row["lag"], row["lag_by_source"]) == (7, "s 2, t 5")


def test_status_from_another_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_status(tmp_path) is None
    write_status(tmp_path / "new", "p", [PartStatus("a", "table")], is_running=True)
    found = read_status(tmp_path / "new")
    assert found is not None
    assert (found["state"], found["pid"], found["name"]) == ("running", os.getpid(), "p")
    assert json.dumps(found["sinks"][0])
    monkeypatch.setattr(module, "PIPELINE_STALE_SECONDS", -1.0)
    lost = read_status(tmp_path / "new")
    assert lost is not None
    assert lost["state"] == "lost"
    write_status(tmp_path / "new", "p", [], is_running=False)
    stopped = read_status(tmp_path / "new")
    assert stopped is not None
    assert stopped["state"] == "stopped"
    assert [one.name for one in (tmp_path / "new").iterdir()] == [module.STATUS_FILE]
