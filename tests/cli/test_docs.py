"""What the documentation types is run, and must print what the documentation shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

import click
import pytest

from kaa.cli.root import root
from scripts import _drawings, _pictures
from scripts._docs import PUBLIC_MODULES
from tests.support.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parents[2]
PICTURE_BYTES_MAX = 64 * 1024
PAGES = ("README.md", "docs/guides/command-line.md")
KAA = [sys.executable, "-c", "from kaa.cli import main; main()"]


class Step(NamedTuple):
    """A command that is typed, and what is shown of its output."""

    command: str
    expected: str


def steps(page: str) -> list[Step]:
    """What the blocks of a page type, in order."""
    text = (ROOT / page).read_text("utf-8")
    found: list[Step] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            found.append(Step(command, expected))
    return found


def pattern_of(expected: str) -> str:
    """Three dots stand for anything: in a line for a part of it, alone for lines."""
    lines = []
    for line in expected.splitlines():
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            parts = (re.escape(part) for part in line.split("..."))
            lines.append(".*".join(parts) + r"[ ]*\n")
    return "".join(lines)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "node") as node:
        yield node


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_is_shown(page: str, broker: BrokerProcess, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "KAA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "KAA_CONFIG_DIR": str(tmp_path / "config"),
    }
    found = steps(page)
    assert found
    for step in found:
        program = f'kaa() {{ {shlex.join(KAA)} "$@"; }}\n{step.command}'
        answer = subprocess.run(
            ["bash", "--norc", "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env=environment,
            cwd=tmp_path,
            timeout=60,
        )
        shown = answer.stdout.replace(broker.bootstrap_servers, "localhost:9092")
        assert answer.returncode == 0, (step.command, shown)
        assert re.fullmatch(pattern_of(step.expected), shown), (
            f"$ {step.command}\n{shown}\n--- but the page shows\n{step.expected}"
        )


def python_blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_python_of_the_readme_runs(broker: BrokerProcess, tmp_path: Path) -> None:
    """The client's code as a script, the test as a test; Spark has a test of its own."""
    scripts = [block for block in python_blocks("README.md") if "spark" not in block]
    (test,) = [block for block in scripts if "def test_" in block]
    (client,) = [block for block in scripts if block != test]
    answer = subprocess.run(
        [sys.executable, "-c", client.replace("localhost:9092", broker.bootstrap_servers)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert answer.stdout == "orders 0\nb'customer-7' b'two lamps'\n"
    (tmp_path / "test_readme.py").write_text(test)
    options = ["-q", "-p", "no:cacheprovider", "-p", "kaa.testing.plugin", "-c", os.devnull]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_readme.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        timeout=60,
    )
    assert "1 passed" in ran.stdout, ran.stdout


def typed_commands(text: str) -> Iterator[list[str]]:
    """Every command line of `kaa` that a page has, in a block or in a sentence, word by word."""
    text = text.replace("\\\n", " ")
    for one in re.finditer(r"`(kaa [a-z][^`]*)`|^(?:.*? )?(kaa [a-z].*)$", text, re.MULTILINE):
        if one[2] is None or is_in_block(text, one.start()):
            lexer = shlex.shlex(one[1] or one[2], posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
            for index, word in enumerate(words):
                if word == "kaa":
                    rest = words[index + 1 :]
                    end = (at for at, found in enumerate(rest) if set(found) <= set("|&;<>()"))
                    yield rest[: next(end, len(rest))]


def is_in_block(text: str, position: int) -> bool:
    return len(re.findall(r"^```", text[:position], re.MULTILINE)) % 2 == 1


def unknown_word(words: list[str]) -> str | None:
    """The first word that no command, and no option of the command, is called."""
    command: click.Command = root
    context = click.Context(root)
    left = deque(words)
    while left and isinstance(command, click.Group) and not left[0].startswith("-"):
        word = left.popleft()
        found = command.get_command(context, word)
        if found is None:
            return word
        command = found
    options = {name: one for one in command.get_params(context) for name in one.opts}
    while left:
        word = left.popleft()
        if re.fullmatch(r"--?[a-zA-Z].*", word):
            name = word.partition("=")[0] if word.startswith("--") else word[:2]
            option = options.get(name)
            if option is None:
                return word
            if isinstance(option, click.Option) and not option.is_flag and name == word and left:
                left.popleft()
    return None


def test_commands_are_there() -> None:
    generated = ROOT / "docs" / "reference" / "cli.md"
    for path in {ROOT / "README.md", *ROOT.glob("docs/**/*.md")} - {generated}:
        for words in typed_commands(path.read_text("utf-8")):
            assert unknown_word(words) is None, f"{path.name}: kaa {shlex.join(words)}"


def test_commands_are_found() -> None:
    block = "```\n$ kaa tail -x | kaa tail --frm a\nkaa tail --from -10 -n 2 t  # All.\n```\n"
    page = f"see `kaa topic lst`\n{block}kaa is no command here\n"
    assert [unknown_word(one) for one in typed_commands(page)] == ["lst", "-x", "--frm", None]


def test_patterns() -> None:
    assert re.fullmatch(pattern_of("a\n...\nz 1...3\n"), "a\nb\nc\nz 123\n")
    assert not re.fullmatch(pattern_of("a\nb\n"), "a\nc\n")


def test_pictures_are_those_of_the_script() -> None:
    made = {f"{picture.name}.svg" for picture in _pictures.PICTURES}
    files = list((ROOT / "docs" / "pictures").glob("*.svg"))
    drawn = _drawings.drawings(ROOT / "docs" / "pictures")
    assert {path.name for path in files} == made | set(drawn)
    for path in files:
        text = path.read_text("utf-8")
        assert len(text) < PICTURE_BYTES_MAX
        if path.name in drawn:
            assert text == drawn[path.name], "run scripts/pictures drawings"
            continue
        assert "url(http" not in text
        for command in next(one.commands for one in _pictures.PICTURES if path.stem == one.name):
            first_word = command.split()[1]
            assert first_word in text


def test_a_terminal_is_drawn_as_it_is() -> None:
    picture = _pictures.Picture("sample", "title", ("kaa x",))
    svg = _pictures.draw(picture, [("kaa x", "\x1b[1mbold\x1b[0m\nplain\n")])
    assert svg.startswith("<svg")
    assert "bold" in svg
    assert "@font-face" not in svg
    shown = _pictures.run_in_terminal("test -t 1 && echo $TERM", "127.0.0.1:1")
    assert shown == "xterm-256color\n"


def test_a_text_drawing_has_lines_arrows_and_words() -> None:
    svg = _drawings.draw_text("+---+\n| a |-->in-sync\n+---+\n  |\n  v\n")
    # Two borders across, two down, and a shaft to each arrow.
    assert svg.count("<line") == 6
    assert svg.count("<polygon") == 2
    assert ">a</text>" in svg
    assert ">in-sync</text>" in svg


def undocumented(module: ModuleType) -> Iterator[str]:
    """Public things of Kaa whose docstring is missing, made up or points elsewhere."""
    for name in module.__all__:
        thing = getattr(module, name)
        if not getattr(thing, "__module__", "").startswith("kaa"):
            continue
        members = vars(thing) if isinstance(thing, type) else {}
        found = {name: thing} | {f"{name}.{key}": value for key, value in members.items()}
        for full, one in found.items():
            is_public = not full.rpartition(".")[2].startswith("_")
            is_told = isinstance(one, FunctionType | property | classmethod | staticmethod | type)
            text = one.__doc__ or ""
            if is_public and is_told and (not text or text.startswith(("See ", f"{name}("))):
                yield f"{module.__name__}.{full}"


def test_everything_public_says_what_it_is() -> None:
    found = [one for name in PUBLIC_MODULES for one in undocumented(import_module(name))]
    assert not found


STALE = """
import sys
from pathlib import Path
from scripts._docs import reference_pages

for name, text in reference_pages().items():
    if Path(name).read_text("utf-8") != text:
        sys.exit(f"run scripts/docs: {name} is not what it would write")
"""


def test_the_generated_reference_is_current() -> None:
    """In a process of its own: commands that have run may show other defaults in their help."""
    ran = subprocess.run(
        [sys.executable, "-c", STALE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
