from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from kaa.cli.completion import SHELLS
from kaa.cli.root import COMMANDS, root

KAA = "from kaa.cli import main; main()"


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


# What each shell is told after the script, and how it is started without files of a user's own.
ASKING = {
    "bash": """
complete -p kaa | grep -q _kaa_completion || exit 9
COMP_WORDS=(kaa topic de) COMP_CWORD=2
_kaa_completion kaa
printf '%s\\n' "${COMPREPLY[@]}"
""",
    "zsh": """
# Outside of a terminal nobody shows completions: the two words that would do so print them.
_describe() { print -rl -- "${(@P)3}" }
compadd() { print -rl -- "${(@P)@[-1]}" }
words=(kaa topic de) CURRENT=3
_kaa_completion
""",
    "fish": 'complete -C "kaa topic de"',
}
STARTED = {
    "bash": ["bash", "--norc", "--noprofile"],
    "zsh": ["zsh", "-f"],
    "fish": ["fish", "--no-config"],
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_itself_completes(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "kaa"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{KAA}" "$@"\n')
    program.chmod(0o755)
    script = subprocess.run([program, "completion", shell], capture_output=True, check=True).stdout
    whole = tmp_path / "script"
    # In zsh the function is made known to the shell, for which its completion must be loaded.
    before = "autoload -Uz compinit && compinit -D\n" if shell == "zsh" else ""
    whole.write_text(before + script.decode() + "\n" + ASKING[shell])
    answer = subprocess.run(
        [*STARTED[shell], str(whole)],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    words = [line.split("\t")[0].split(":")[0] for line in answer.stdout.splitlines()]
    assert [word for word in words if word] == ["delete", "describe"], answer
