from __future__ import annotations

import json

from click.testing import CliRunner, Result

from kaa.cli.perf import histogram, percentile, summary
from kaa.cli.root import root


def kaa(bootstrap: str, *arguments: str) -> Result:
    answer = CliRunner().invoke(root, ["perf", *arguments, "-b", bootstrap])
    assert answer.exit_code == 0, answer.output
    return answer


def test_percentiles() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [percentile(values, percent) for percent in (50, 99, 99.9, 100)] == [50, 99, 100, 100]
    assert percentile([7.0], 50) == 7
    assert summary([3.0, 1.0, 2.0]) == {
        "mean": 2,
        "p50": 2,
        "p90": 3,
        "p99": 3,
        "p99.9": 3,
        "max": 3,
    }


def test_histogram() -> None:
    assert histogram([0.1, 0.2, 3.0, 4.0, 4.1]) == [(0.125, 1), (0.25, 1), (4.0, 2), (8.0, 1)]


def test_runs(bootstrap: str, topic_name: str) -> None:
    written = json.loads(kaa(bootstrap, "produce", topic_name, "-n", "2500", "-o", "json").stdout)
    assert written["records"] == 2500
    assert written["records_per_second"] > 0
    latency_ms = written["latency_ms"]
    assert 0 < latency_ms["p50"] <= latency_ms["p99"] <= latency_ms["max"]
    read = json.loads(kaa(bootstrap, "consume", topic_name, "-o", "json").stdout)
    assert read["records"] == 2500
    table = kaa(bootstrap, "produce", topic_name, "-n", "20", "--rate", "2000").stdout
    assert table.startswith("20 records in ")
    assert "latency in ms: mean " in table
    assert " ms " in table.splitlines()[-1]


def test_end_to_end(bootstrap: str, topic_name: str) -> None:
    answer = json.loads(kaa(bootstrap, "e2e", topic_name, "-n", "20", "-o", "json").stdout)
    assert answer["records"] == 20
    assert answer["latency_ms"]["p50"] < 1000
