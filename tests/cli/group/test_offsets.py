from __future__ import annotations

import json
from pathlib import Path

import pytest

from kaa.cli.client import EXIT_NOT_FOUND, EXIT_USAGE
from tests.cli.groups import group, kaa

__all__ = ["group"]


@pytest.mark.parametrize(
    ("how", "offset"),
    [
        (["--to", "start"], 0),
        (["--to", "earliest"], 0),
        (["--to", "end"], 5),
        (["--to", "-1"], 4),
        (["--to", "@-1h"], 0),
        (["--to", "99"], 5),
        (["--by", "-1"], 1),
        (["--by", "+2"], 4),
    ],
)
def test_plans(bootstrap: str, topic_name: str, group: str, how: list[str], offset: int) -> None:
    plan = kaa(bootstrap, "group", "seek", group, *how, "-t", f"{topic_name}:0", "-o", "json")
    assert plan.exit_code == 0, plan.output
    (row,) = json.loads(plan.stdout)
    assert (row["committed"], row["offset"], row["end_offset"]) == (2, offset, 5)
    assert "nothing was changed; add --execute" in plan.stderr
    rows = json.loads(kaa(bootstrap, "group", "lag", group, "-o", "json").stdout)
    assert rows[0]["committed"] == 2


def test_plan_in_a_file_moves_another_group(
    bootstrap: str, topic_name: str, group: str, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(kaa(bootstrap, "group", "seek", group, "--to", "4", "-o", "csv").stdout)
    other = f"{group}-other"
    moved = kaa(bootstrap, "group", "seek", other, "--from-file", str(file), "--execute")
    assert moved.exit_code == 0, moved.output
    rows = json.loads(kaa(bootstrap, "group", "lag", other, "-o", "json").stdout)
    assert [row["committed"] for row in rows] == [4, 0]


def test_delete_offsets(bootstrap: str, topic_name: str, group: str) -> None:
    plan = kaa(bootstrap, "group", "delete-offsets", group, "-t", f"{topic_name}:1")
    assert "nothing was deleted" in plan.stderr
    done = kaa(
        bootstrap, "group", "delete-offsets", group, "-t", f"{topic_name}:1", "--yes", "-o", "json"
    )
    assert json.loads(done.stdout)[0]["status"] == "deleted", done.output
    rows = json.loads(kaa(bootstrap, "group", "lag", group, "-o", "json").stdout)
    assert [row["partition"] for row in rows] == [0]


def test_wrong_use(bootstrap: str, topic_name: str, tmp_path: Path) -> None:
    seek = ["group", "seek", topic_name]
    assert kaa(bootstrap, *seek).exit_code == EXIT_USAGE
    assert kaa(bootstrap, *seek, "--to", "end", "--by", "1").exit_code == EXIT_USAGE
    nothing = kaa(bootstrap, *seek, "--to", "end")
    assert nothing.exit_code == EXIT_USAGE
    assert "has committed nothing; name topics with -t" in nothing.stderr
    absent = kaa(bootstrap, *seek, "--to", "end", "-t", f"{topic_name}-absent")
    assert absent.exit_code == EXIT_NOT_FOUND
    assert kaa(bootstrap, *seek, "--to", "soon", "-t", "x").exit_code == EXIT_USAGE
    file = tmp_path / "no.csv"
    file.write_text("a,b,c\nd\n")
    assert kaa(bootstrap, *seek, "--from-file", str(file)).exit_code == EXIT_USAGE
