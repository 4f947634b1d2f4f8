"""Takes secrets out of text that is handed to others: settings, JAAS lines, addresses, JSON, logs.

What a setting is called decides: a name with `password`, `secret`, `token`, `credential`, `jaas`,
`user.info`, `signature`, `license` and the like, names whose last word is `pw`, `pwd`, `pass` or
`sig`, and names that end in `.key` or `certificate.chain`, which are keys as text. Its value goes
wherever the name stands, in the middle of a line too: after a sign of assignment, as the next item
of a list, as the `value` beside a `name`, or as the next word of a command line. What begins a line
goes up to its end, and so does JAAS, whose values hold blanks.
User and password in an address go too, either alone as well (not the container of
`abfss://container@account`), PEM blocks of keys, and what stands after `Bearer` or
`Basic`. It rather takes too much: a bundle is for looking at faults.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "[hidden]"

_NAME: Final = (
    r"[\w.-]*(?:password|passwd|passphrase|secret|token|credential|jaas|user[._-]?info|"
    r"basic[._-]?auth|api[._-]?key|account[._-]?key|access[._-]?key|signature|license)[\w.-]*|"
    r"[\w.-]*(?:keystore[._]key|private[._]key|certificate[._]chain)|"
    r"(?:[\w.-]*[._-])?(?:pw|pwd|pass|psw|sig)"
)
# A text in quotes of either kind, which may be escaped as a whole inside another text.
_QUOTED: Final = r"\\*([\"'])(?:\\.|(?!\2).)*?\2"
# A value of JSON: such a text, or a bare number.
_VALUE: Final = rf"(?:{_QUOTED}|-?\d[\w.+-]*)"
_RULES: Final = (
    # PEM blocks of private keys, also on one line with \\n in it.
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL
        ),
        "",
    ),
    # "name": "sasl.jaas.config", "value": "...", as lists of settings have it, in either order.
    (
        re.compile(
            rf"(?i)(\\*[\"'](?:name|key)\\*[\"']\s*[:=]\s*\\*[\"'](?:{_NAME})\\*[\"'],\s*"
            rf"\\*[\"']value\\*[\"']\s*[:=]\s*){_VALUE}"
        ),
        r"\1",
    ),
    # "name": "value" or "name": 5, also with the quotes escaped inside another text.
    (re.compile(rf"(?i)(\\*[\"'](?:{_NAME})\\*[\"']\s*:\s*){_VALUE}"), r"\1"),
    # ("name", "value"), but not the next name of an object.
    (re.compile(rf"(?i)(\\*[\"'](?:{_NAME})\\*[\"']\s*,\s*){_QUOTED}(?!\s*:)"), r"\1"),
    # name="value" and name='value' inside a line, as JAAS has it.
    (re.compile(rf"(?i)\b((?:{_NAME})\s*[=:]\s*){_QUOTED}"), r"\1"),
    # name=value up to the end of the line, with the lines that continue it.
    (re.compile(rf"(?im)^(\s*(?:{_NAME})\s*[=:]\s*)(?:\\\n|.)+$"), r"\1"),
    # JAAS anywhere in a line: what it holds has blanks, and ends with a semicolon or the line.
    (re.compile(r"(?i)\b([\w.-]*jaas[\w.-]*\s*[=:]\s*)(?!\[hidden\])[^;\n]+;?"), r"\1"),
    # name=value and name: value inside a line: environment, lists, queries, logs.
    (re.compile(rf"(?i)\b((?:{_NAME})\s*[=:]\s*)(?!\[hidden\])[^\s\"',;&]+"), r"\1"),
    # --password value, as on command lines.
    (re.compile(rf"(?i)(?<!\S)(--?(?:{_NAME})\s+)(?!\[hidden\]|-)\S+"), r"\1"),
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{6,}"), r"\1"),
    # scheme://user:password@host, where the password may hold an @ itself.
    (re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://)[^/\s:@\"']*:[^/\s\"']+(?=@)"), r"\1"),
    # scheme://token@host.
    (
        re.compile(
            r"(?i)(\b(?!abfss?:|wasbs?:)[a-z][a-z0-9+.-]*://)(?!\[hidden\])[^/\s:@?#\"']+(?=@)"
        ),
        r"\1",
    ),
)


def without_secrets(text: str) -> str:
    """The text with `[hidden]` in the place of each secret."""
    for pattern, kept in _RULES:
        text = pattern.sub(kept + HIDDEN if kept else HIDDEN, text)
    return text
