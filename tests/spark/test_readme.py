"""The quick start of the README for Spark runs as it stands, and shows what it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

README = Path(__file__).resolve().parents[2] / "README.md"


def test_quick_start(
    spark: SparkSession, kaa_node: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    text = README.read_text("utf-8")
    found = re.search(r"```python\n(from kaa\.spark.*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    assert found is not None
    program, shown = found.groups()
    program = program.replace("localhost:9092", kaa_node.bootstrap_servers)
    # The session of the test run is the one that is asked for.
    exec(compile(program, str(README), "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.strip() == shown.strip()
