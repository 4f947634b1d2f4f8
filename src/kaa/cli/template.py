"""`-o template=TEXT`: one line per row, of which braces are filled in.

| text | becomes |
|---|---|
| `{name}` | the value of a key of the JSON form |
| `{configs[x]}` | a member of an object; `{replicas[0]}` of a list |
| `{size:>8}` | padded as in Python: `<` left, `>` right, `^` middle, and a width |
| `{{`, `}}` | a brace |
| `\\t`, `\\n` | a tab, a new line |

Objects and lists are filled in as JSON, null as nothing. A template is data: it reaches keys and
members, and never the attributes of an object of Python.
"""

from __future__ import annotations

import json
import re
from string import Formatter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX: Final = "template="
_PATH: Final = re.compile(r"[A-Za-z_][\w.-]*(?:\[[^\[\]]+\])*")
_SPEC: Final = re.compile(r"[<>^]?\d{0,4}")
_ESCAPES: Final = {"\\t": "\t", "\\n": "\n", "\\\\": "\\"}


class TemplateError(ValueError):
    """A template that cannot be filled in."""


class Template:
    """A template, parsed once."""

    def __init__(self, text: str) -> None:
        """`text` may have the prefix of the option; raises TemplateError."""
        text = re.sub(r"\\[tn\\]", lambda match: _ESCAPES[match[0]], text.removeprefix(PREFIX))
        try:
            self._parts = list(Formatter().parse(text))
        except ValueError as error:
            raise TemplateError(f"the template {text!r} is not whole: {error}") from error
        for _, path, spec, conversion in self._parts:
            if path is None:
                continue
            if not _PATH.fullmatch(path) or conversion or not _SPEC.fullmatch(spec or ""):
                shown = path + (f"!{conversion}" if conversion else "") + (f":{spec}" * bool(spec))
                raise TemplateError(
                    f"{{{shown}}} is not a field; write {{name}}, {{configs[retention.ms]}} or "
                    "{name:<20}"
                )

    def fill(self, row: Mapping[str, Any]) -> str:
        """The line of a row, without its end; raises TemplateError for a key that is not there."""
        filled: list[str] = []
        for literal, path, spec, _ in self._parts:
            filled.append(literal)
            if path is not None:
                filled.append(format(_text(_lookup(row, path)), spec or ""))
        return "".join(filled)


def _lookup(row: Mapping[str, Any], path: str) -> Any:
    head, *rest = re.split(r"\[|\]\[|\]", path.removesuffix("]"))
    if head not in row:
        raise TemplateError(f"there is no field {head}; fields: {', '.join(row)}")
    value: Any = row[head]
    for step in rest:
        value = _member(value, step)
    return value


def _member(value: Any, step: str) -> Any:
    """A member that is not there is null: rows differ."""
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    return None


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def lines(text: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of all rows."""
    template = Template(text)
    return [template.fill(row) for row in rows]
