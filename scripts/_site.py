"""Renders Markdown pages as a site: navigation, search, highlighted code; no server and no network.

The navigation is the list of links in docs/README.md. A README becomes the index of its folder. The
search looks through an index of sections that is a script beside the pages, so that it works for
files that are opened without a server too.
"""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path, PurePosixPath
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from markdown_it import MarkdownIt
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markdown_it.token import Token

ASSETS = Path(__file__).resolve().parent / "theme"
INDEX = "docs/README.md"
SECTION_TEXT_CHARACTERS_MAX = 4_000
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_LIGHT, _DARK = "default", "github-dark"


class Section(NamedTuple):
    """A heading of a page, and what comes after it."""

    level: int
    anchor: str
    heading: str
    text: str


def slug(heading: str) -> str:
    """The anchor of a heading, as hosts of Markdown make it."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def path_in_site(name: str) -> str:
    """Where a page is, by the path of its Markdown."""
    path = PurePosixPath(name)
    return (
        (path.with_name("index") if path.stem == "README" else path).with_suffix(".html").as_posix()
    )


def resolve(folder: str, target: str) -> str:
    """The path that a relative link leads to."""
    parts: list[str] = []
    for part in (*PurePosixPath(folder).parts, *PurePosixPath(target).parts):
        if part == "..":
            parts = parts[:-1] if parts else [".."]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _highlighted(code: str, language: str, _: str) -> str:
    try:
        lexer = get_lexer_by_name(language or "text")
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    body = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return f'<pre class="code"><code>{body}</code></pre>'


class Page:
    """A page, read."""

    def __init__(self, name: str, text: str, pages: Mapping[str, str]) -> None:
        self.name = name
        self.path = path_in_site(name)
        self.up = "../" * self.path.count("/")
        self._folder = PurePosixPath(name).parent.as_posix()
        self._pages = pages
        self._markdown = MarkdownIt("commonmark", {"highlight": _highlighted}).enable("table")
        self._markdown.add_render_rule("table_open", lambda *_: '<div class="table"><table>')
        self._markdown.add_render_rule("table_close", lambda *_: "</table></div>")
        self._tokens = self._markdown.parse(text)
        # Files of the repository that the page leads to or shows.
        self.files: list[str] = []
        self.sections = self._read()
        self.title = next((each.heading for each in self.sections), name)

    def _read(self) -> list[Section]:
        """Gives headings their anchors and links their targets; the sections, for the search."""
        sections: list[Section] = []
        heading: Token | None = None
        for token in self._tokens:
            if token.type == "heading_open":
                heading = token
            elif token.type == "inline":
                words = "".join(
                    child.content if child.type in {"text", "code_inline"} else " "
                    for child in token.children or ()
                )
                if heading is not None:
                    heading.attrSet("id", slug(words))
                    sections.append(Section(int(heading.tag[1]), slug(words), words, ""))
                    heading = None
                elif sections:
                    sections[-1] = sections[-1]._replace(text=f"{sections[-1].text} {words}")
                for child in token.children or ():
                    self._lead(child)
            elif token.type == "fence" and sections:
                sections[-1] = sections[-1]._replace(text=f"{sections[-1].text} {token.content}")
        return sections

    def _lead(self, token: Token) -> None:
        """Lets a link or a picture lead to where its target is in the site."""
        kind = {"link_open": "href", "image": "src"}.get(token.type)
        target = None if kind is None else str(token.attrGet(kind))
        if kind is None or target is None or re.match(r"[a-z]+:", target):
            return
        path, mark, anchor = target.partition("#")
        if not path:
            return
        found = resolve(self._folder, path)
        if found in self._pages:
            token.attrSet(kind, self.up + path_in_site(found) + mark + anchor)
        elif f"{found}/README.md" in self._pages:
            token.attrSet(kind, self.up + path_in_site(f"{found}/README.md"))
        else:
            self.files.append(found)
            token.attrSet(kind, self.up + found)

    def body(self) -> str:
        rendered: str = self._markdown.renderer.render(self._tokens, self._markdown.options, {})
        return rendered

    def contents(self) -> str:
        """The headings of the page."""
        items = [
            f'<li><a class="{"deeper" if each.level > 2 else ""}" href="#{each.anchor}">'
            f"{html.escape(each.heading)}</a></li>"
            for each in self.sections[1:]
            if each.level in {2, 3}
        ]
        return f"<ul>{''.join(items)}</ul>"


def navigation(index: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Sections of the index, each with labels and pages."""
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for line in index.splitlines():
        if line.startswith("## "):
            found.append((line.removeprefix("## "), []))
        elif found:
            for label, target in _LINK.findall(line):
                if target.endswith(".md"):
                    found[-1][1].append((label, resolve("docs", target)))
    return found


def _navigation_html(sections: Sequence[tuple[str, list[tuple[str, str]]]], page: Page) -> str:
    parts = []
    for title, links in sections:
        items = []
        for label, name in links:
            current = ' aria-current="page"' if name == page.name else ""
            href = page.up + path_in_site(name)
            items.append(f'<li><a href="{href}"{current}>{html.escape(label)}</a></li>')
        parts.append(f"<h2>{html.escape(title)}</h2><ul>{''.join(items)}</ul>")
    return "\n".join(parts)


def _search_index(pages: Sequence[Page]) -> str:
    sections: list[dict[str, Any]] = [
        {
            "url": f"{page.path}#{section.anchor}",
            "title": page.title,
            "heading": section.heading,
            "text": " ".join(section.text.split())[:SECTION_TEXT_CHARACTERS_MAX],
        }
        for page in pages
        for section in page.sections
    ]
    return f"window.kaaSections = {json.dumps(sections, ensure_ascii=False)};\n"


def render(pages: Mapping[str, str], root: Path, site: Path) -> None:
    """Writes the site; `root` has the files that pages lead to."""
    shutil.rmtree(site, ignore_errors=True)
    template = Template((ASSETS / "page.html").read_text("utf-8"))
    sections = navigation(pages.get(INDEX, ""))
    read = [Page(name, text, pages) for name, text in pages.items()]
    for page in read:
        target = site / page.path
        target.parent.mkdir(parents=True, exist_ok=True)
        text = template.substitute(
            title=html.escape(page.title),
            up=page.up,
            navigation=_navigation_html(sections, page),
            body=page.body(),
            contents=page.contents(),
        )
        target.write_text(text, "utf-8")
        for name in page.files:
            _copy(root / name, site / name)
    light = HtmlFormatter(style=_LIGHT).get_style_defs("pre.code")
    dark = HtmlFormatter(style=_DARK).get_style_defs("pre.code")
    style = (ASSETS / "style.css").read_text("utf-8")
    # The grounds of the two schemes are those of the site.
    colours = f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    code = "pre.code, pre.code .err { background: var(--soft); border: 0 }\n"
    (site / "style.css").write_text(style + colours + code, "utf-8")
    shutil.copyfile(ASSETS / "search.js", site / "search.js")
    (site / "search-index.js").write_text(_search_index(read), "utf-8")


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
