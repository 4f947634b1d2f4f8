from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer

from kaa.cli.client import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_UNHEALTHY, EXIT_USAGE
from kaa.cli.root import root


def kaa(bootstrap: str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap], input=stdin)


@pytest.fixture
def group(bootstrap: str, topic_name: str) -> str:
    """A group that has read 2 of 5 records of partition 0, and nothing of partition 1."""
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "2").exit_code == 0
    assert kaa(bootstrap, "produce", topic_name, "-p", "0", *"abcde").exit_code == 0
    name = f"group-{topic_name}"
    sought = kaa(bootstrap, "group", "seek", name, "--to", "2", "-t", topic_name, "--execute")
    assert sought.exit_code == 0, sought.output
    return name


@pytest.fixture
def member(bootstrap: str, topic_name: str, group: str) -> Iterator[Consumer]:
    """A member of the group that has its partitions."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    consumer.subscribe([topic_name])
    for _ in range(300):
        consumer.poll(0.1)
        if consumer.assignment():
            break
    yield consumer
    consumer.close()


def test_list_and_describe(bootstrap: str, group: str) -> None:
    rows = json.loads(kaa(bootstrap, "group", "list", "-o", "json").stdout)
    (row,) = [row for row in rows if row["name"] == group]
    assert row["state"] == "Empty"
    assert group in kaa(bootstrap, "group", "list", "--state", "Empty", "-o", "name").stdout
    table = kaa(bootstrap, "group", "describe", group)
    assert table.exit_code == 0, table.output
    assert "Empty, 0 members" in table.stdout
    absent = kaa(bootstrap, "group", "describe", group, f"{group}-absent")
    assert absent.exit_code == 3
    assert "GROUP_ID_NOT_FOUND" in absent.stderr


def test_lag(bootstrap: str, topic_name: str, group: str) -> None:
    answer = kaa(bootstrap, "group", "lag", group, "-o", "json")
    rows = json.loads(answer.stdout)
    assert [(row["partition"], row["committed"], row["lag"]) for row in rows] == [
        (0, 2, 3),
        (1, 0, 0),
    ]
    assert f"{group} is 3 records behind" in answer.stderr
    assert kaa(bootstrap, "group", "lag", group, "--max", "3").exit_code == 0
    assert kaa(bootstrap, "group", "lag", group, "--max", "2").exit_code == EXIT_UNHEALTHY
    assert kaa(bootstrap, "group", "lag", f"{group}-absent").exit_code == EXIT_NOT_FOUND


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


def test_members(bootstrap: str, topic_name: str, group: str, member: Consumer) -> None:
    (described,) = json.loads(kaa(bootstrap, "group", "describe", group, "-o", "json").stdout)
    assert described["state"] == "Stable"
    (only,) = described["members"]
    assert only["partitions"] == [f"{topic_name}-0", f"{topic_name}-1"]
    table = kaa(bootstrap, "group", "lag", group).stdout
    assert "rdkafka" in table
    refused = kaa(bootstrap, "group", "seek", group, "--to", "end", "--execute")
    assert refused.exit_code == EXIT_FAILED
    assert "has members (1)" in refused.stderr
    deleted = kaa(bootstrap, "group", "delete", group, "--yes")
    assert deleted.exit_code == EXIT_FAILED
    assert "NON_EMPTY_GROUP" in deleted.stderr


def test_delete(bootstrap: str, topic_name: str, group: str) -> None:
    plan = kaa(bootstrap, "group", "delete-offsets", group, "-t", f"{topic_name}:1")
    assert "nothing was deleted" in plan.stderr
    done = kaa(
        bootstrap, "group", "delete-offsets", group, "-t", f"{topic_name}:1", "--yes", "-o", "json"
    )
    assert json.loads(done.stdout)[0]["status"] == "deleted", done.output
    rows = json.loads(kaa(bootstrap, "group", "lag", group, "-o", "json").stdout)
    assert [row["partition"] for row in rows] == [0]
    assert "would be deleted" in kaa(bootstrap, "group", "delete", group).stdout
    assert kaa(bootstrap, "group", "delete", group, "--yes").exit_code == 0
    assert kaa(bootstrap, "group", "delete", group, "--yes").exit_code == EXIT_NOT_FOUND


def test_watch(bootstrap: str, group: str) -> None:
    arguments = ["group", "watch", group, "--interval", "0.1", "-n", "2"]
    answer = kaa(bootstrap, *arguments, "-o", "jsonl")
    assert answer.exit_code == 0, answer.output
    *_, third, _ = [json.loads(line) for line in answer.stdout.splitlines()]
    assert third["lag"] == 3
    assert third["trend"] == "steady"
    assert f"{group}: 3 records behind" in kaa(bootstrap, *arguments).stdout


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
