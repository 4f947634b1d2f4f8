from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from kaa.cli import main
from kaa.cli.root import COMMANDS, load, root


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_table_says_what_the_command_says(name: str) -> None:
    command = load(COMMANDS[name])
    assert command.get_short_help_str(limit=100) == COMMANDS[name].summary


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_every_command_has_examples(name: str) -> None:
    answer = CliRunner().invoke(root, [name, "--help"], prog_name="kaa")
    assert answer.exit_code == 0
    assert f"Examples:\n    kaa {name}" in answer.output


def test_help_lists_commands_without_importing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in COMMANDS.values():
        monkeypatch.delitem(sys.modules, entry.module, raising=False)
    answer = CliRunner().invoke(root, ["-h"])
    assert answer.exit_code == 0
    for name, entry in COMMANDS.items():
        assert f"  {name}" in answer.output
        assert entry.summary in answer.output
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
