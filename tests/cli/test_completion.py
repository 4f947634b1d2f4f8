from __future__ import annotations

import subprocess

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from kaa.cli.completion import SHELLS
from kaa.cli.root import COMMANDS, root


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts(shell: str) -> None:
    answer = CliRunner().invoke(root, ["completion", shell])
    assert answer.exit_code == 0
    assert f"_KAA_COMPLETE={shell}_complete" in answer.stdout


def complete(*words: str) -> list[str]:
    shell = BashComplete(root, {}, "kaa", "_KAA_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_words() -> None:
    assert complete("") == sorted(COMMANDS)
    assert complete("prod") == ["produce"]
    assert complete("topic", "de") == ["delete", "describe"]
    assert complete("config", "describe", "br") == ["broker"]
    assert complete("topic", "list", "-X", "sasl.me") == ["sasl.mechanism="]
    assert complete("topic", "create", "t", "-c", "cleanup") == ["cleanup.policy="]
    assert "--command-config" in complete("topic", "list", "--com")


def test_bash_takes_the_script() -> None:
    script = CliRunner().invoke(root, ["completion", "bash"]).stdout
    program = f"{script}\ncomplete -p kaa"
    answer = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True
    )
    assert "_kaa_completion kaa" in answer.stdout
