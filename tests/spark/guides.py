"""Code of guides, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"


def blocks(page: str, heading: str | None = None) -> list[str]:
    """The blocks of Python of a page: of one section, or of what is before all sections."""
    return _blocks(page, heading, "python")


def shown(page: str, heading: str) -> str:
    """The output that a section shows."""
    (found,) = _blocks(page, heading, "")
    return found


def _blocks(page: str, heading: str | None, language: str) -> list[str]:
    text = (GUIDES / page).read_text("utf-8")
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    sections = dict(zip([None, *parts[1::2]], parts[::2], strict=True))
    found = re.findall(r"^```(\w*)\n(.*?)^```$", sections[heading], re.DOTALL | re.MULTILINE)
    fitting = [body for kind, body in found if kind == language]
    assert fitting, f"{page} has no such block under {heading}"
    return fitting


def run(program: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs a block; gives the names that it leaves."""
    exec(compile(program, "<guide>", "exec"), names)
    return names


def with_places(program: str, servers: str, folder: Path, topics: dict[str, str]) -> str:
    """A block that speaks to another cluster, with other names of topics and other folders."""
    program = program.replace("localhost:9092", servers).replace("checkpoints/", f"{folder}/")
    for name, real in topics.items():
        program = program.replace(f'"{name}"', f'"{real}"')
    return program
