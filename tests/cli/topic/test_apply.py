from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_FAILED, EXIT_PARTLY, EXIT_UNHEALTHY, EXIT_USAGE
from kaa.cli.root import root
from kaa.cli.topic.apply import FileError, Present, TopicChange, Wanted, plan, read_wanted


def kaa(bootstrap: str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap], input=stdin)


def test_plans() -> None:
    present = {"a": Present(3, 1, {"x": "1", "y": "2"})}
    same = [Wanted("a", 3, 1, {"x": "1"})]
    assert plan(same, present, is_strict=False) == []
    assert plan(same, present, is_strict=True) == [TopicChange("a", "unset", "y", "2", None)]
    assert plan([Wanted("a", None, None, {})], present, is_strict=False) == []
    more = [Wanted("a", 4, None, {"x": "9", "z": "3"})]
    assert plan(more, present, is_strict=False) == [
        TopicChange("a", "add", "partitions", "3", "4"),
        TopicChange("a", "set", "x", "1", "9"),
        TopicChange("a", "set", "z", None, "3"),
    ]
    less = [Wanted("a", 2, 3, {})]
    assert [(one.action, one.what) for one in plan(less, present, is_strict=False)] == [
        ("conflict", "partitions"),
        ("conflict", "replication_factor"),
    ]
    new = [Wanted("b", None, 3, {"x": "1"})]
    assert plan(new, present, is_strict=True) == [
        TopicChange("b", "create", "partitions", None, None),
        TopicChange("b", "create", "replication_factor", None, "3"),
        TopicChange("b", "create", "x", None, "1"),
    ]


WANTED = [Wanted("a", 2, None, {"x.y": "1", "b": "true", "c": "u,v"})]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "t.yaml",
            "topics:\n- name: a\n  partitions: 2\n  configs: {x.y: 1, b: true, c: [u, v]}\n",
        ),
        (
            "t.toml",
            '[[topics]]\nname="a"\npartitions=2\nconfigs={"x.y"=1, b=true, c=["u", "v"]}\n',
        ),
        (
            "t.json",
            '[{"name": "a", "partitions": 2, "configs": {"x.y": 1, "b": true, "c": ["u", "v"]}}]',
        ),
        ("t", '[{"name": "a", "partitions": 2, "configs": {"x.y": 1, "b": true, "c": "u,v"}}]'),
        ("t.txt", "- {name: a, partitions: 2, configs: {x.y: 1, b: true, c: [u, v]}}\n"),
    ],
)
def test_files(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_wanted(path) == WANTED


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "no list of topics"),
        ("nonsense", "it is not JSON: Expecting value"),
        ("\udcff", "it is not UTF-8: "),
        ('[{"partitions": 1}]', "it needs a name"),
        ('[{"name": "a", "partition": 1}]', "partition; known fields: configs, name, partitions"),
        ('[{"name": "a", "partitions": 0}]', "not a number above 0"),
        ('[{"name": "a", "configs": []}, {"name": "a"}]', "is listed twice"),
        ('[{"name": "a", "configs": [1]}]', "not names with values"),
        ('[{"name": "a", "configs": {"retention.ms": null}}]', "retention.ms of topic a has no"),
    ],
)
def test_what_is_no_list_of_topics(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(FileError, match=why):
        read_wanted(path)


@pytest.mark.parametrize("text", ["", "nonsense"])
def test_standard_input_that_is_no_list_of_topics(text: str) -> None:
    answer = CliRunner().invoke(root, ["topic", "apply", "-"], input=text)
    assert answer.exit_code == EXIT_USAGE
    assert "the file has no list of topics" in answer.stderr


def test_yaml_at_standard_input(bootstrap: str, topic_name: str) -> None:
    answer = kaa(bootstrap, "topic", "apply", "-", stdin=f"topics:\n- name: {topic_name}\n")
    assert answer.exit_code == 0, answer.output
    assert topic_name in answer.stdout


def test_from_plan_to_sameness(bootstrap: str, topic_name: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.json"

    def says(*topics: dict[str, object]) -> None:
        path.write_text(json.dumps({"topics": topics}))

    says({"name": topic_name, "partitions": 2, "configs": {"retention.ms": 77}})
    planned = kaa(bootstrap, "topic", "apply", str(path))
    assert planned.exit_code == 0, planned.output
    assert "nothing was changed; add --yes to do it" in planned.stderr
    assert kaa(bootstrap, "topic", "apply", str(path), "--check").exit_code == EXIT_UNHEALTHY
    done = kaa(bootstrap, "topic", "apply", str(path), "--yes")
    assert done.exit_code == 0, done.output
    assert "1 topic created or changed" in done.stderr
    assert kaa(bootstrap, "topic", "apply", str(path), "--check").exit_code == 0
    says({"name": topic_name, "partitions": 3, "configs": {"retention.ms": 78, "segment.ms": 9}})
    assert kaa(bootstrap, "topic", "apply", str(path), "--yes").exit_code == 0
    described = json.loads(kaa(bootstrap, "topic", "describe", topic_name, "-o", "json").stdout)
    assert len(described[0]["partitions"]) == 3
    assert described[0]["configs"] == {"retention.ms": "78", "segment.ms": "9"}
    # What describe prints is a file of what there is.
    same = kaa(bootstrap, "topic", "apply", "-", "--check", stdin=json.dumps(described))
    assert same.exit_code == 0, same.output
    says({"name": topic_name, "configs": {"retention.ms": 78}})
    assert kaa(bootstrap, "topic", "apply", str(path), "--check").exit_code == 0
    assert kaa(bootstrap, "topic", "apply", str(path), "--strict", "--yes").exit_code == 0
    assert kaa(bootstrap, "config", "get", "topic", topic_name, "segment.ms").stdout != "9\n"


def test_conflicts_and_refusals(bootstrap: str, topic_name: str, tmp_path: Path) -> None:
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "2").exit_code == 0
    path = tmp_path / "topics.json"
    new = f"{topic_name}-new"
    path.write_text(json.dumps([{"name": new}, {"name": topic_name, "partitions": 1}]))
    refused = kaa(bootstrap, "topic", "apply", str(path), "--yes")
    assert refused.exit_code == EXIT_FAILED
    assert "partitions cannot go from 2 to 1" in refused.stderr
    assert kaa(bootstrap, "topic", "list", new, "-o", "name").stdout == ""
    bad = {"name": topic_name, "configs": {"retention.ms": "soon"}}
    path.write_text(json.dumps([{"name": new}, bad]))
    partly = kaa(bootstrap, "topic", "apply", str(path), "--yes")
    assert partly.exit_code == EXIT_PARTLY, partly.output
    assert "INVALID_CONFIG" in partly.stderr
    path.write_text("[")
    assert kaa(bootstrap, "topic", "apply", str(path)).exit_code == EXIT_USAGE
