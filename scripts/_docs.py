"""Builds the documentation: checks every link, generates the reference, renders all into site/.

Pages are the Markdown files of the root and of docs/. Reference pages are generated from the tables
that the code itself runs on, so that they cannot differ from it; they exist in site/ alone.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import click

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "site"

# Links and pictures alike.
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s:]+)\)")
CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)

PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse; font-size: 14px }}
td, th {{ border: 1px solid #ccc; padding: 2px 8px; text-align: left; vertical-align: top }}
pre {{ background: #f5f5f5; padding: 8px; overflow: auto }}
img {{ max-width: 100% }}
nav {{ font-size: 14px }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #1d1f21; color: #ddd }}
  a {{ color: #8ab4f8 }}
  pre {{ background: #2a2c2e }}
  td, th {{ border-color: #555 }}
}}
</style>
<nav>{navigation}</nav>
{body}
</html>
"""

NAVIGATION = {
    "Kaa": "README.html",
    "Documentation": "docs/README.html",
    "Command line": "docs/reference/cli.html",
    "Settings": "docs/reference/settings.html",
}
"""What stands above every page."""

Pages = dict[str, str]
"""Path below the site, with the suffix .md -> Markdown."""


def written_pages() -> Pages:
    """Reads the pages that people write."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(paths)}


def reference_pages() -> Pages:
    """Generates the pages that the code knows better than anyone."""
    from kaa.config.reference import reference

    return {
        "docs/reference/cli.md": command_line_page(),
        "docs/reference/errors.md": errors_page(),
        "docs/reference/protocol.md": protocol_page(),
        "docs/reference/settings.md": reference(),
    }


def command_line_page() -> str:
    """Shows the help of every command."""
    import click

    from kaa.cli.command import SHARED_SECTION
    from kaa.cli.root import COMMANDS, load, root

    shared_link = f"[{SHARED_SECTION}](#connection-and-output)"
    introduction = f"What `--help` says, for every command; {shared_link} stands at the end."
    parts = ["# The command line", introduction]
    root_context = click.Context(root, info_name="kaa", terminal_width=100, **root.context_settings)
    parts.append(f"```\n{root.get_help(root_context)}\n```")
    for name, entry in sorted(COMMANDS.items()):
        parts += command_parts(load(entry), name, root_context)
    listing = load(COMMANDS["topic"])
    assert isinstance(listing, click.Group)
    shared = help_of(listing.commands["list"], root_context, "list")[1]
    parts.append(f"## {SHARED_SECTION}\n\n```\n{shared}\n```")
    return "\n\n".join(parts) + "\n"


def command_parts(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    """Shows the help of a command, and of those below it."""
    import click

    context = click.Context(command, info_name=name, parent=parent, terminal_width=100)
    level = "##" if parent.parent is None else "###"
    own, _ = help_of(command, parent, name)
    yield f"{level} {context.command_path}\n\n```\n{own}\n```"
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            found = command.get_command(context, verb)
            assert found is not None
            yield from command_parts(found, verb, context)


def help_of(command: click.Command, parent: click.Context, name: str) -> tuple[str, str]:
    """The help of a command, and the part of it that others have too."""
    import click

    from kaa.cli.command import SHARED_SECTION

    context = click.Context(command, info_name=name, parent=parent, terminal_width=100)
    own, _, shared = command.get_help(context).partition(f"\n{SHARED_SECTION}:\n")
    return own.rstrip(), shared.rstrip()


def errors_page() -> str:
    """Lists the error codes."""
    from kaa.wire.errors import Errors

    rows = [
        (str(error.value), error.name, "yes" if error.retriable else "no", error.message)
        for error in Errors
    ]
    return f"# Error codes\n\n{table(('code', 'name', 'retriable', 'meaning'), rows)}"


def protocol_page() -> str:
    """Lists the APIs with the versions that the codec knows."""
    from kaa.wire.registry import ApiKey, api

    rows = []
    for key in ApiKey:
        entry = api(key)
        served, advertised = entry.served_versions(), entry.advertised_versions()
        rows.append(
            (
                str(key.value),
                entry.name,
                f"{served.low} to {served.high}" if served.low <= served.high else "none",
                str(advertised.low) if advertised.low != served.low else "",
                ", ".join(entry.listener_types),
            )
        )
    head = ("key", "API", "versions", "advertised from", "listeners")
    return f"# Protocol\n\nWhat the codec reads and writes.\n\n{table(head, rows)}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Writes a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def broken_links(pages: Pages) -> list[str]:
    """Checks that relative links lead to a page, a heading or a file."""
    problems = []
    for name, text in pages.items():
        for target in LINK.findall(CODE_BLOCK.sub("", text)):
            if re.match(r"[a-z]+:", target):
                continue  # Links to elsewhere are not followed: a build needs no network.
            path, _, anchor = target.partition("#")
            folder = Path(name).parent
            found = resolve(folder / path) if path else name
            if found not in pages and not (ROOT / found).exists():
                problems.append(f"{name}: nothing at {target}")
            elif anchor and anchor not in anchors(pages.get(found, "")):
                problems.append(f"{name}: no heading {target}")
    return problems


def resolve(path: Path) -> str:
    """Removes the steps up and down from a relative path."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1] if parts else [".."]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def anchors(text: str) -> set[str]:
    """Gives the anchors of a page's headings, as hosts of Markdown make them."""
    headings = re.findall(r"^#+\s+(.+)$", CODE_BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in headings}


def render(pages: Pages) -> None:
    """Writes the site."""
    shutil.rmtree(SITE, ignore_errors=True)
    markdown = MarkdownIt("commonmark").enable("table")
    for name, text in pages.items():
        target = SITE / Path(name).with_suffix(".html")
        target.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * name.count("/")
        body = re.sub(r'(href="(?!\w+:)[^"#]+)\.md(?=["#])', r"\1.html", markdown.render(text))
        heading = re.search(r"^# (.+)$", text, re.MULTILINE)
        title = html.escape(heading[1] if heading else name)
        navigation = " · ".join(
            f'<a href="{up}{path}">{label}</a>' for label, path in NAVIGATION.items()
        )
        target.write_text(PAGE.format(title=title, navigation=navigation, body=body), "utf-8")
        for picture in PICTURE.findall(text):
            path = resolve(Path(name).parent / picture)
            copy = SITE / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, copy)


def main() -> int:
    """Builds everything; fails if a link is broken."""
    pages = written_pages() | reference_pages()
    problems = broken_links(pages)
    render(pages)
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(pages)} pages in {SITE.name}/, {len(problems)} broken links")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
