from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kaa.cli import main
from kaa.cli.output import OUTPUTS
from kaa.cli.root import COMMANDS, load, root

SERVERS_AND_STREAMS = {
    "kaa broker start",
    "kaa dev",
    "kaa completion",
    "kaa group watch",
    "kaa host start",
}
"""What has no result to print in one form or another."""
WITHOUT_RESULT = {f"kaa profile {verb}" for verb in ("use", "clear", "rename", "delete", "prompt")}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name, nouns too."""
    for name, entry in COMMANDS.items():
        yield from below(f"kaa {name}", load(entry))


def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for verb, found in command.commands.items():
            yield from below(f"{name} {verb}", found)


ALL = dict(commands())


def examples(command: click.Command) -> list[str]:
    help_text = command.help or ""
    _, _, block = help_text.partition("Examples:\n")
    return [line.strip() for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_table_says_what_the_command_says(name: str) -> None:
    command = load(COMMANDS[name])
    assert command.get_short_help_str(limit=100) == COMMANDS[name].summary


@pytest.mark.parametrize("name", sorted(ALL))
def test_help_of_every_command_has_examples(name: str) -> None:
    answer = CliRunner().invoke(root, [*name.split()[1:], "--help"], prog_name="kaa")
    assert answer.exit_code == 0
    assert "Examples:\n    kaa " in answer.output
    shown = examples(ALL[name])
    assert any(line.startswith(name) or f"| {name}" in line for line in shown), shown


def calls(line: str) -> Iterator[list[str]]:
    """The calls of kaa in a line of shell, as words."""
    line = re.sub(r"\$\([^)]*\)", "substituted", line)
    words: list[str] = []
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&<>;")
    lexer.whitespace_split = True
    for word in [*lexer, "|"]:
        if word and set(word) <= set("|&<>;"):
            if words[:1] == ["kaa"]:
                yield words[1:]
            words = []
        else:
            words.append(word)


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_example_parses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The files that examples name are not here.
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, _parameter, _context: value)
    found = [words for line in examples(ALL[name]) for words in calls(line)]
    assert found
    for words in found:
        parse(root, "kaa", words, None)


def parse(command: click.Command, name: str, words: list[str], parent: Any) -> None:
    with command.make_context(name, list(words), parent=parent) as context:
        if isinstance(command, click.Group):
            rest = [*context._protected_args, *context.args]
            if not rest and command.invoke_without_command:
                return
            verb, found, left = command.resolve_command(context, rest)
            assert found is not None
            assert verb is not None
            parse(found, verb, left, context)


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_command_with_a_result_has_all_forms(name: str) -> None:
    command = ALL[name]
    if isinstance(command, click.Group) or name in SERVERS_AND_STREAMS | WITHOUT_RESULT:
        return
    (output,) = [one for one in command.params if one.name == "output"]
    assert isinstance(output.type, click.Choice)
    assert tuple(output.type.choices) == OUTPUTS
    assert "-o" in output.opts


def test_help_lists_commands_without_importing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in COMMANDS.values():
        monkeypatch.delitem(sys.modules, entry.module, raising=False)
    answer = CliRunner().invoke(root, ["-h"])
    assert answer.exit_code == 0
    for name, entry in COMMANDS.items():
        assert f"  {name}" in answer.output
        assert entry.summary in " ".join(answer.output.split())
        assert entry.module not in sys.modules


def test_unknown_command_is_wrong_usage() -> None:
    answer = CliRunner().invoke(root, ["nosuch"])
    assert answer.exit_code == 2
    assert "No such command 'nosuch'" in answer.output


def test_entry_point(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kaa", "version"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("kaa ")


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (BrokenPipeError(), 141), (ValueError("x"), 1)]
)
def test_nobody_sees_a_traceback(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(**_arguments: object) -> None:
        raise error

    monkeypatch.setattr(load(COMMANDS["version"]), "callback", fail)
    monkeypatch.setattr("kaa.cli.client.pacify_output", lambda: None)
    answer = CliRunner().invoke(root, ["version"])
    assert answer.exit_code == code
    assert "Traceback" not in answer.output
    if code == 1:
        assert answer.stderr.startswith("error: ValueError: x\n  next ")
        verbose = CliRunner().invoke(root, ["version", "-v"])
        assert isinstance(verbose.exception, ValueError)
        assert isinstance(CliRunner().invoke(root, ["-v", "version"]).exception, ValueError)


def test_words_that_are_nearly_commands() -> None:
    answer = CliRunner().invoke(root, ["topci"])
    assert answer.exit_code == 2
    assert "No such command 'topci'. Did you mean topic?" in answer.output
    answer = CliRunner().invoke(root, ["topic", "lst"])
    assert "No such command 'lst'. Did you mean list?" in answer.output


def test_version_is_an_option_too() -> None:
    answer = CliRunner().invoke(root, ["--version"])
    assert answer.exit_code == 0
    assert answer.output == CliRunner().invoke(root, ["version"]).output


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["topic", "--help"], ["version"]])
def test_a_pipe_that_nobody_reads_ends_every_command_alike(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-c", "from kaa.cli import main; main()", *words]
    ended = subprocess.run(program, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")
