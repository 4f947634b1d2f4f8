r"""Java's `.properties` text: reading and writing.

The grammar, as `java.util.Properties` reads it:

- Lines end with LF, CR or CR LF. A line is blank if it has only spaces, tabs and form feeds, and a
  comment if its first other character is `#` or `!`. Both are skipped, and a comment is never
  continued.
- A line that ends with an odd number of backslashes goes on in the next line, without the last
  backslash and without the white space at the start of the next. A comment sign there is an
  ordinary character.
- The key ends at the first `=`, `:`, space, tab or form feed that has no backslash in front.
  White space, at most one `=` or `:`, and white space again are dropped; the rest, to its last
  space, is the value.
- `\t \n \r \f` and `\uXXXX` (one UTF-16 unit) are escapes; a backslash before anything else is
  dropped.
- When a key occurs twice, the last one counts.

A file is bytes in Latin-1, whatever the locale. What does not fit is written as `\uXXXX`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kaa import limits
from kaa.config.values import ConfigError

_WHITE = " \t\f"
_SEPARATORS = "=:"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class Property(NamedTuple):
    """One entry of a file, with the number of the line it starts on, counted from 1."""

    name: str
    value: str
    line: int


def decode_properties(data: bytes) -> list[Property]:
    """The entries of a file in order; `ConfigError` for a bad escape or too large a file."""
    if len(data) > limits.CONFIG_FILE_BYTES_MAX:
        raise ConfigError(
            f"The properties file has {len(data)} bytes, "
            f"the limit is {limits.CONFIG_FILE_BYTES_MAX}."
        )
    return parse_properties(data.decode("latin-1"))


def parse_properties(text: str) -> list[Property]:
    """The entries of a text in order."""
    entries = []
    for line_number, line in _logical_lines(text):
        name, value = (_unescape(part, line_number) for part in _split(line))
        entries.append(Property(name, value, line_number))
        if len(entries) > limits.CONFIG_SETTINGS_MAX:
            raise ConfigError(
                f"The properties file has more than {limits.CONFIG_SETTINGS_MAX} entries."
            )
    return entries


def as_mapping(entries: Iterable[Property]) -> dict[str, str]:
    """Name to value; the last entry of a name counts."""
    return {entry.name: entry.value for entry in entries}


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Joins continued lines and drops blank and comment lines; keeps where each began."""
    pending = ""
    first = 0
    continued = False
    natural_lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, natural in enumerate(natural_lines, 1):
        line = natural.lstrip(_WHITE)
        if not continued:
            if not line or line[0] in "#!":
                continue
            pending, first = "", number
        elif not line and not pending:
            # Only backslashes so far: nothing is pending, the next line is a new entry.
            continued = False
            continue
        continued = _ends_with_continuation(line)
        pending += line[:-1] if continued else line
        if not continued:
            yield first, pending
    if continued:
        yield first, pending


def _ends_with_continuation(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Key and value of a logical line, both still escaped."""
    end = 0
    while end < len(line) and line[end] not in _SEPARATORS and line[end] not in _WHITE:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_WHITE)
    if rest[:1] and rest[0] in _SEPARATORS:
        rest = rest[1:].lstrip(_WHITE)
    return line[:end], rest


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while (backslash := text.find("\\", position)) >= 0:
        parts.append(text[position:backslash])
        escaped = text[backslash + 1 : backslash + 2]
        position = backslash + 2
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) < 4 or not _HEX_DIGITS.issuperset(digits):
                raise ConfigError(
                    f"Line {line_number} of the properties file: \\u must be followed by "
                    "four hexadecimal digits."
                )
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    parts.append(text[position:])
    # Two escaped UTF-16 units may be one character.
    joined = "".join(parts)
    return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def format_properties(entries: Mapping[str, str], comment: str = "") -> str:
    """The text of a file with these entries, in their order, under a comment if there is one."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += [
        f"{_escape(name, everywhere=True)}={_escape(value, everywhere=False)}"
        for name, value in entries.items()
    ]
    return "".join(f"{line}\n" for line in lines)


def _escape(text: str, *, everywhere: bool) -> str:
    """Escapes a key (every space) or a value (a space at its start)."""
    parts: list[str] = []
    for index, character in enumerate(text):
        if character == " ":
            parts.append("\\ " if everywhere or index == 0 else " ")
        elif character in "\\=:#!":
            parts.append(f"\\{character}")
        elif character in _ESCAPED:
            parts.append(_ESCAPED[character])
        elif " " <= character <= "~":
            parts.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            parts += [f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2)]
    return "".join(parts)
