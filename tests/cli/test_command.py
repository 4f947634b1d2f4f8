from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kaa.cli.client import EXIT_USAGE
from kaa.cli.command import SHARED_SECTION, ByteCount, Name, Noun
from kaa.cli.root import root
from kaa.cli.topic.topic import command as topic


def test_shared_options_come_last() -> None:
    text = CliRunner().invoke(root, ["topic", "create", "-h"]).output
    own, _, shared = text.partition(f"{SHARED_SECTION}:\n")
    assert "--if-not-exists" in own
    assert "--bootstrap-server" not in own
    assert "--bootstrap-server" in shared
    assert "--output" in shared


def test_verbs_of_a_noun_have_the_class() -> None:
    assert isinstance(topic, Noun)
    assert {type(verb) for verb in topic.commands.values()} == {Noun.command_class}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-b", "host", "topic", "list"], "-b goes after the command: kaa COMMAND ... -b ..."),
        (["--output", "json", "offsets", "t"], "--output goes after the command: kaa COMMAND ..."),
        (
            ["topic", "-b", "host", "list"],
            "-b goes after the command: kaa topic COMMAND ... -b ...",
        ),
    ],
)
def test_shared_options_go_after_the_command(arguments: list[str], said: str) -> None:
    answer = CliRunner().invoke(root, arguments, prog_name="kaa")
    assert answer.exit_code == EXIT_USAGE
    assert said in answer.stderr


def test_other_options_are_refused_as_ever() -> None:
    answer = CliRunner().invoke(root, ["--nosuch", "topic"], prog_name="kaa")
    assert (answer.exit_code, "after the command" in answer.stderr) == (EXIT_USAGE, False)


def test_names_never_fail(monkeypatch: object) -> None:
    context = click.Context(topic)
    assert Name("nosuch").shell_complete(context, click.Argument(["x"]), "") == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("50000000", 50_000_000),
        ("50MB", 50_000_000),
        ("50 mb", 50_000_000),
        ("1.5k", 1_500),
        ("50MiB", 50 * 1024**2),
        ("2g", 2_000_000_000),
    ],
)
def test_bytes_have_units(text: str, count: int) -> None:
    assert ByteCount().convert(text, None, None) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "MB", "50 bananas", "1.2.3", "0.1"])
def test_what_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write 50000000, 50MB or 50MiB"):
        ByteCount().convert(text, None, None)


@pytest.mark.parametrize("text", ["0", "0MB", "0.1"])
def test_no_bytes_at_all_are_refused_with_what_to_do_instead(text: str) -> None:
    told = f"^'{text}' is less than one byte; write 50000000, 50MB or 50MiB, or rest$"
    with pytest.raises(click.BadParameter, match=told):
        ByteCount("rest").convert(text, None, None)
