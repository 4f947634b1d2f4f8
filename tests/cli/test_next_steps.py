"""Commands that texts of the product name are commands that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from kaa.cli.root import root

_SOURCE = Path(__file__).parents[2] / "src" / "kaa"
# As texts quote a command: in backticks, or in brackets behind what it is for.
_QUOTED = re.compile(r"[`(]kaa ([a-z][a-z -]*)")


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every text that is no documentation, with its line; pieces of one are put together."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield node.lineno, "{}".join(str(piece) for piece in pieces)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def is_command(words: list[str]) -> bool:
    """Whether the words begin with a command: groups have to be followed by one of theirs."""
    command: click.Command | None = root
    context = click.Context(root)
    for word in words:
        if not isinstance(command, click.Group):
            return True
        command = command.get_command(context, word)
        if command is None:
            return False
    return True


def test_quoted_commands_exist() -> None:
    found, missing = 0, []
    for path in sorted(_SOURCE.rglob("*.py")):
        for line, text in texts(ast.parse(path.read_text("utf-8"))):
            for match in _QUOTED.finditer(text):
                found += 1
                words = [word for word in match[1].split() if not word.startswith("-")]
                if not is_command(words):
                    missing.append(f"{path.relative_to(_SOURCE)}:{line}: kaa {match[1]}")
    assert not missing
    assert found > 20
