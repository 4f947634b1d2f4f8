"""Text of others on a terminal: what would steer it is printed escaped.

A record, a client id or a message of a broker may hold any bytes, and a terminal obeys some: ESC
starts a sequence that moves the cursor, clears the screen, renames the window or types on behalf
of anyone who watches. Escaped are the control characters of ASCII (below 0x20, and 0x7f), those of
Latin-1 (0x80 to 0x9f, of which 0x9b does what ESC [ does), the separators of lines and paragraphs,
and the marks that change the direction of writing, which hide what a line says. Tab and newline
stay where the caller wants them.

A pipe gets bytes as they are: what reads there is a program, and it may want them back.

The standard streams of the program escape what is written to them as text (`standard_streams`), so
that no command can forget to. The colours of the program's own words pass, as does what `steer`
writes.
"""

from __future__ import annotations

import re
from typing import IO, Final

_STEERING: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
# Bold, dim, the colours that the program uses, and the end of these.
_STYLES: Final = re.compile("(\x1b\\[(?:[012]|3[1-6])m)")
_IN_LINES: Final = re.compile(f"[{_STEERING}]")
_IN_ONE_LINE: Final = re.compile(f"[{_STEERING}\t\n]")
_SHORT: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(text: str, *, one_line: bool = False) -> str:
    """The text with everything escaped that steers a terminal; in one line, also its ends."""
    return (_IN_ONE_LINE if one_line else _IN_LINES).sub(_escape, text)


def visible_but_styles(text: str) -> str:
    """The same, with colours."""
    parts = _STYLES.split(text)
    return "".join(part if number % 2 else visible(part) for number, part in enumerate(parts))


def steer(stream: IO[str], text: str) -> None:
    """Writes what is meant to steer the terminal."""
    write = getattr(stream, "steer", stream.write)
    write(text)


def visible_bytes(data: bytes) -> bytes:
    """The same of bytes; those that are no UTF-8 are shown by their codes."""
    return visible(data.decode(errors="backslashreplace")).encode()


def for_stream(text: str, stream: IO[str]) -> str:
    """The text as it may be written there: escaped on a terminal alone."""
    return visible(text) if stream.isatty() else text


def _escape(match: re.Match[str]) -> str:
    letter = match[0]
    code = ord(letter)
    return _SHORT.get(letter) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
