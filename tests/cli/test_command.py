from __future__ import annotations

import click
from click.testing import CliRunner

from kaa.cli.command import SHARED_SECTION, Name, Noun
from kaa.cli.root import root
from kaa.cli.topic import command as topic


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


def test_names_never_fail(monkeypatch: object) -> None:
    context = click.Context(topic)
    assert Name("nosuch").shell_complete(context, click.Argument(["x"]), "") == []
