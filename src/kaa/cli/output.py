"""How commands print their result: the option `-o`, one place for all of its forms.

A result is a list of rows, each a mapping with the same keys. Some commands also have a document,
which says the same with more structure.

| form | what it is |
|---|---|
| table | for people: upper-case column names; on a terminal sizes have units |
| wide | the same with more columns |
| json | the document, or the list of rows; a contract: keys are added, never renamed |
| yaml | the same as YAML |
| jsonl | one row per line, as JSON |
| csv | every column under a line of their names; null is empty |
| name | one column alone, for `xargs` and loops |
| template | `template={name} {id}`: a line per row, filled in (`template` has the rules) |

Data goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from io import StringIO
from typing import IO, TYPE_CHECKING, Any, Final

import click

from kaa.cli.template import PREFIX, Template, TemplateError
from kaa.cli.visible import for_stream, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

NO_COLOR_KEY: Final = "kaa.no-color"
NO_PROGRESS_KEY: Final = "kaa.no-progress"
"""Under which a command keeps what its options say about terminals."""

OUTPUTS: Final = ("table", "wide", "json", "jsonl", "yaml", "csv", "name")


if TYPE_CHECKING:
    _StringChoice = click.Choice[str]
else:
    # Only the newest releases of click have parameters of the class.
    _StringChoice = click.Choice


class OutputType(_StringChoice):
    """One of the forms, or a template, which is checked before anything is done."""

    def __init__(self) -> None:
        super().__init__(OUTPUTS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).startswith(PREFIX):
            return super().convert(value, param, ctx)
        try:
            Template(value)
        except TemplateError as error:
            self.fail(str(error), param, ctx)
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The forms, and how a template begins."""
        return f"[{'|'.join(OUTPUTS)}|{PREFIX}TEXT]"


_BYTES_SUFFIX: Final = "_bytes"
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
# What YAML reads as a word and not as something else.
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_YAML_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def show(
    output: str,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    name: str = "name",
    *,
    wide: Sequence[str] = (),
    document: object = None,
    text: Callable[[], None] | None = None,
) -> None:
    """Prints a result in the form asked for.

    `name` is the column of `-o name`, `wide` are the columns that `-o wide` adds,
    `document` is what JSON and YAML show instead of the rows, and `text` prints what people
    see instead of a table.
    """
    if output.startswith(PREFIX):
        _print_template(output, rows if document is None else _rows_of(document))
    elif output == "json":
        print_json(list(rows) if document is None else document)
    elif output == "yaml":
        click.echo(yaml_text(list(rows) if document is None else document), nl=False)
    elif output == "jsonl":
        for row in rows:
            click.echo(json.dumps(row))
    elif output == "name":
        for row in rows:
            click.echo(for_stream(cell(row[name]), sys.stdout))
    elif output == "csv":
        print_csv([*columns, *wide], rows)
    elif text is not None:
        text()
    else:
        shown = [*columns, *wide] if output == "wide" else list(columns)
        print_rows(shown, rows)


def _rows_of(document: object) -> list[Any]:
    return list(document) if isinstance(document, list) else [document]


def _print_template(text: str, rows: Sequence[Mapping[str, Any]]) -> None:
    template = Template(text)
    try:
        for row in rows:
            click.echo(for_stream(template.fill(row), sys.stdout))
    except TemplateError as error:
        raise click.UsageError(str(error)) from error


def show_one(
    output: str, row: Mapping[str, Any], name: str, text: Callable[[], None] | None = None
) -> None:
    """Prints a result that is one thing: JSON and YAML show it without a list around it."""
    show(output, list(row), [row], name, document=dict(row), text=text)


def print_json(value: object) -> None:
    """Prints one JSON document."""
    click.echo(json.dumps(value, indent=2))


def print_csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints rows as a spreadsheet reads them."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = (row[column] for column in columns)
        writer.writerow(["" if value in (None, [], ()) else cell(value) for value in values])
    click.echo(for_stream(text.getvalue(), sys.stdout), nl=False)


# --- tables


def print_rows(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints rows of values as a table; columns of numbers end at the same place."""
    is_terminal = sys.stdout.isatty()
    right = {
        index
        for index, column in enumerate(columns)
        if _holds_numbers([row[column] for row in rows])
    }
    heads = []
    for column in columns:
        shown = column.removesuffix(_BYTES_SUFFIX) if is_terminal else column
        heads.append(shown.replace("_", "-"))
    lines = [
        [_shown(column, row[column], is_terminal=is_terminal) for column in columns] for row in rows
    ]
    print_table(heads, lines, right)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()
) -> None:
    """Prints rows under upper-case column names, each column as wide as its widest cell."""
    lines = [[name.upper() for name in columns], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    aligned = set(right)
    for number, line in enumerate(lines):
        cells = (
            text.rjust(width) if index in aligned else text.ljust(width)
            for index, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        shown = "  ".join(cells).rstrip()
        click.echo(shown if number else styled(shown, bold=True))


def _holds_numbers(values: Sequence[object]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(type(value) in {int, float} for value in known)


def _shown(column: str, value: Any, *, is_terminal: bool) -> str:
    if is_terminal and column.endswith(_BYTES_SUFFIX) and isinstance(value, int):
        return size_text(value)
    return visible(cell(value), one_line=True) if is_terminal else cell(value)


def cell(value: Any) -> str:
    """A value as text in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(cell, value)) or "-"
    if isinstance(value, dict):
        return ",".join(f"{name}={cell(one)}" for name, one in value.items()) or "-"
    return str(value)


def size_text(size_bytes: int) -> str:
    """A size with a unit, for people."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = size_bytes / 1024
    units = list(_UNITS)
    while size >= 1024 and len(units) > 1:
        size /= 1024
        del units[0]
    return f"{size:.1f} {units[0]}"


def styled(text: str, *, err: bool = False, **style: Any) -> str:
    """Text with colours, if a terminal that shows them reads it."""
    return click.style(text, **style) if shows_colors(sys.stderr if err else sys.stdout) else text


def shows_colors(stream: IO[str]) -> bool:
    """Whether colours are welcome there."""
    if "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or is_asked(NO_COLOR_KEY):
        return False
    return stream.isatty()


def is_asked(key: str) -> bool:
    """Whether an option of the command that runs asks for this."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(key))


# --- YAML


def yaml_text(value: object) -> str:
    """A document of the values that JSON has, as YAML."""
    if isinstance(value, dict | list) and value:
        return "".join(f"{line}\n" for line in _yaml_lines(value))
    return f"{_yaml_scalar(value)}\n"


def _yaml_lines(value: dict[str, Any] | list[Any]) -> list[str]:
    lines: list[str] = []
    if isinstance(value, dict):
        for name, one in value.items():
            head = f"{_yaml_scalar(str(name))}:"
            if _is_block(one):
                # The items of a list may stand at the depth of its name.
                indent = "" if isinstance(one, list) else "  "
                lines += [head, *(indent + line for line in _yaml_lines(one))]
            else:
                lines.append(f"{head} {_yaml_scalar(one)}")
    else:
        for one in value:
            if _is_block(one):
                first, *rest = _yaml_lines(one)
                lines += [f"- {first}", *(f"  {line}" for line in rest)]
            else:
                lines.append(f"- {_yaml_scalar(one)}")
    return lines


def _is_block(value: object) -> bool:
    """Whether a value takes lines of its own; a list of plain values does not."""
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list | tuple) and any(isinstance(one, dict | list) for one in value)


def _yaml_scalar(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml_scalar, value))}]"
    is_word = isinstance(value, str) and _PLAIN.fullmatch(value) is not None
    if is_word and str(value).lower() not in _YAML_WORDS:
        return str(value)
    return json.dumps(value)
