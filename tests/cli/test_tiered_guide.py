"""The commands of docs/guides/tiered-storage.md, run in their order as they stand there."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

from click.testing import CliRunner, Result

from kaa.cli.root import root
from tests.support.broker_thread import broker_thread
from tests.support.tiered import until, wait_until_tiered

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "tiered-storage.md"
STORE = "file://$PWD/tier"


def commands() -> list[list[str]]:
    """The words after each prompt."""
    blocks = re.findall(r"```console\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line.removeprefix("$ ")) for line in lines if line.startswith("$ ")]


def test_the_guide(tmp_path: Path) -> None:
    store = (tmp_path / "tier").as_uri()
    start, *rest = commands()
    assert start[:3] == ["kaa", "broker", "start"]
    overrides = [
        word.replace(STORE, store) for option, word in pairwise(start) if option == "--override"
    ]
    assert len(overrides) == 6
    with broker_thread(tmp_path / "data", *overrides) as node:

        def run(words: list[str], *more: str) -> Result:
            assert words[0] == "kaa"
            arguments = [
                word.replace(STORE, store).replace("$PWD", str(tmp_path)) for word in words[1:]
            ]
            arguments += ["-b", node.bootstrap_servers, *more]
            result = CliRunner().invoke(root, arguments)
            assert result.exit_code == 0, (words, result.output)
            return result

        create, produce, table, consume, verify, audit, convert, land, stop_copying, leave = rest
        run(create)
        run(produce)
        wait_until_tiered(node.bootstrap_servers, "history", tail_max=1_100)
        (row,) = json.loads(run(table, "-o", "json").stdout)
        assert row["segments"] > 10
        assert row["local_start_offset"] > row["start_offset"] == 0
        assert len(run(consume).stdout.splitlines()) == 1
        assert "checked, no problem found" in run(verify).output
        (audited,) = json.loads(run(audit, "-o", "json").stdout)["partitions"]
        assert (audited["segments"], audited["findings"]) == (row["segments"], 0)
        assert "kaa lake run goes on from there" in run(convert).stderr
        assert "history is up to date" in run(land).stderr
        run(stop_copying)
        run(leave)
        until(lambda: not list((tmp_path / "tier").glob("*/*.log")), "the tier is cleared")
