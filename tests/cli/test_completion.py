from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from kaa.cli.completion import SHELLS, places
from kaa.cli.root import COMMANDS, root
from tests.support.broker_process import BrokerProcess

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


def test_places() -> None:
    found = {place.words: place for place in places(root, "kaa")}
    assert list(found["kaa"].verbs) == sorted(COMMANDS)
    assert found["kaa topic"].verbs["list"].startswith("List topics")
    assert {"-p", "--partition", "--registry", "-o"} <= set(found["kaa consume"].options)
    assert not found["kaa consume"].verbs
    for place in found.values():
        for text in (*place.verbs.values(), *place.options.values()):
            assert not set(text) & set("'\"`$\\\n")


# What each shell is sent after the script, and how it is started without files of a user's own.
ASKING = {
    "bash": """
complete -p kaa | grep -q _kaa_completion || exit 9
COMP_WORDS=(@WORDS@) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_kaa_completion kaa
printf '%s\\n' "${COMPREPLY[@]}"
""",
    "zsh": """
# Outside of a terminal nobody shows completions: the two words that would do so print them.
_describe() { print -rl -- "${(@P)3}" }
compadd() { print -rl -- "${(@P)@[-1]}" }
words=(@WORDS@) CURRENT=${#words}
_kaa_completion
""",
    "fish": 'complete -C "@WORDS@"',
}
STARTED = {
    "bash": ["bash", "--norc", "--noprofile"],
    "zsh": ["zsh", "-f"],
    "fish": ["fish", "--no-config"],
}


def completed(shell: str, line: str, program: str, folder: Path) -> list[str]:
    """What the shell itself makes of a line, with this program as `kaa`."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    kaa = folder / "kaa"
    kaa.write_text(f"#!/bin/sh\n{program}\n")
    kaa.chmod(0o755)
    script = CliRunner().invoke(root, ["completion", shell]).stdout
    whole = folder / "script"
    # In zsh the function is made known to the shell, for which its completion must be loaded.
    before = "autoload -Uz compinit && compinit -D\n" if shell == "zsh" else ""
    whole.write_text(before + script + "\n" + ASKING[shell].replace("@WORDS@", line))
    answer = subprocess.run(
        [*STARTED[shell], str(whole)],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    words = [shown.split("\t")[0].split(":")[0] for shown in answer.stdout.splitlines()]
    found = [word for word in words if word]
    assert found, answer
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_and_options_need_no_program(shell: str, tmp_path: Path) -> None:
    none = f"touch {tmp_path}/was-called"
    assert completed(shell, "kaa topic de", none, tmp_path) == ["delete", "describe"]
    assert completed(shell, "kaa --timeout 3 off", none, tmp_path) == ["offsets"]
    assert completed(shell, "kaa topic create x --par", none, tmp_path) == ["--partitions"]
    assert not (tmp_path / "was-called").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_topics_are_there_at_the_first_tab(
    shell: str, tmp_path: Path, kaa_node: BrokerProcess, topic_name: str
) -> None:
    servers = kaa_node.bootstrap_servers
    name = f"{topic_name}-{shell}"
    assert CliRunner().invoke(root, ["topic", "create", name, "-b", servers]).exit_code == 0
    program = (
        f"export KAA_CACHE_DIR={tmp_path}/cache KAA_BOOTSTRAP_SERVERS={servers}\n"
        # A busy machine may take longer than a shell should wait.
        f'exec {sys.executable} -c "import kaa.cli.names as names; names._WAIT_SECONDS = 60; {KAA}"'
    )
    assert completed(shell, f"kaa topic describe {name[:-1]}", program, tmp_path) == [name]
