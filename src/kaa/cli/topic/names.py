"""Which topics are meant: patterns of a shell, or regular expressions."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def matcher(patterns: Sequence[str], *, is_regex: bool) -> Callable[[str], bool]:
    """Whether a whole name matches one of the patterns; without patterns every name does."""
    if not patterns:
        return lambda _: True
    if not is_regex:
        return lambda name: any(fnmatchcase(name, pattern) for pattern in patterns)
    compiled = [pattern_of(text) for text in patterns]
    return lambda name: any(one.fullmatch(name) for one in compiled)


def pattern_of(text: str) -> re.Pattern[str]:
    """A regular expression; raises UsageError for what is not one."""
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f"{text!r} is not a regular expression: {error}") from error
