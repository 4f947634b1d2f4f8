"""Builds the documentation: checks every link, writes the reference, renders all into site/.

Pages are the Markdown files of the root and of docs/, the results of benchmarks and the list of
tests. Reference pages are made from the tables that the code itself runs on, and written into
docs/reference, so that they can be read in the repository too; `_site` renders.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts._site import render, resolve, slug

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import click

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "site"

# Links and pictures alike.
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)

Pages = dict[str, str]
"""Path below the site, with the suffix .md -> Markdown."""


def written_pages() -> Pages:
    """Reads the pages that people write."""
    paths = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benches" / "results").rglob("*.md"),
        ROOT / "tests" / "README.md",
    ]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(paths)}


def reference_pages() -> Pages:
    """Generates the pages that the code knows better than anyone."""
    from kaa.config.reference import reference

    return {
        "docs/reference/cli.md": command_line_page(),
        "docs/reference/errors.md": errors_page(),
        "docs/reference/protocol.md": protocol_page(),
        "docs/reference/python.md": python_page(),
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


PUBLIC_MODULES = ("kaa.client", "kaa.client.sync", "kaa.testing")


def python_page() -> str:
    """Lists what is imported from Kaa: classes with their methods, functions, with signatures."""
    parts = ["# Python", "What the public modules offer. The guides tell how it is used."]
    for name in PUBLIC_MODULES:
        module = importlib.import_module(name)
        parts.append(f"## {name}\n\n{summary(module)}")
        for public in sorted(module.__all__):
            parts += documented(public, getattr(module, public))
    return "\n\n".join(parts) + "\n"


def documented(name: str, thing: Any) -> Iterator[str]:
    """What there is to say about a class or a function."""
    if not callable(thing):
        return
    yield f"### {name}\n\n```\n{signature(name, thing)}\n```\n\n{summary(thing)}".rstrip()
    if not inspect.isclass(thing) or issubclass(thing, BaseException):
        return
    rows = []
    for method, value in inspect.getmembers(thing):
        if method.startswith("_") or not summary(value):
            continue
        if inspect.isfunction(value):
            rows.append((f"`{signature(method, value)}`", summary(value)))
        elif isinstance(value, property):
            rows.append((f"`{method}`", summary(value)))
    if rows:
        yield table(("method", ""), rows).rstrip()


def signature(name: str, thing: Any) -> str:
    """As one would call it; without annotations, which the editor shows."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"{name}()"
    plain = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in found.parameters.values()
        if each.name != "self"
    ]
    call = found.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    is_async = "async " if inspect.iscoroutinefunction(thing) else ""
    return re.sub(r"<([\w.]+) object at 0x\w+>", r"\1()", f"{is_async}{name}{call}")


def summary(thing: Any) -> str:
    """The first paragraph of a docstring, if it says something by itself."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return "" if text.startswith("See ") else text


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
            found = resolve(Path(name).parent.as_posix(), path) if path else name
            if found not in pages and not (ROOT / found).exists():
                problems.append(f"{name}: nothing at {target}")
            elif anchor and anchor not in anchors(pages.get(found, "")):
                problems.append(f"{name}: no heading {target}")
    return problems


def anchors(text: str) -> set[str]:
    """Gives the anchors of a page's headings, as hosts of Markdown make them."""
    headings = re.findall(r"^#+\s+(.+)$", CODE_BLOCK.sub("", text), re.MULTILINE)
    return {slug(head) for head in headings}


def main() -> int:
    """Builds everything; fails if a link is broken."""
    reference = reference_pages()
    for name, text in reference.items():
        (ROOT / name).write_text(text, "utf-8")
    pages = written_pages() | reference
    problems = broken_links(pages)
    render(pages, ROOT, SITE)
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(pages)} pages in {SITE.name}/, {len(problems)} broken links")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
