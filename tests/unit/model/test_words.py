from __future__ import annotations

import ast
import re
from pathlib import Path

from kaa.model.words import count_text, partitions_text

SOURCES = Path(__file__).resolve().parents[3] / "src" / "kaa"
NOUNS = re.compile(
    r" (records|partitions|topics|segments|rows|files|members|brokers|replicas|transactions|"
    r"connections|nodes|tasks|groups|entries|fields|batches|directories|settings)\b(?!/)"
)


def test_counts() -> None:
    assert [count_text(number, "record") for number in (0, 1, 2)] == [
        "0 records",
        "1 record",
        "2 records",
    ]
    assert count_text(3, "directory") == "3 directories"
    assert [count_text(number, "batch") for number in (1, 2)] == ["1 batch", "2 batches"]


def test_which_partitions() -> None:
    assert partitions_text(1) == "partition 0 alone"
    assert partitions_text(3) == "partitions 0 to 2"


def plain_counts(path: Path) -> list[str]:
    """Numbers before a noun in the plural, in texts that are put together."""
    found = []
    for text in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(text, ast.JoinedStr):
            continue
        for part, after in zip(text.values, text.values[1:], strict=False):
            is_noun = isinstance(after, ast.Constant) and NOUNS.match(str(after.value))
            if is_noun and isinstance(part, ast.FormattedValue) and is_number(part.value):
                found.append(f"{path.name}:{text.lineno}: {ast.unparse(text)}")
    return found


def is_number(value: ast.expr) -> bool:
    """Whether it may be 1: lengths and counts, but no limit, which is never that small."""
    return bool(re.match(r"len\(|sum\(|(.*\.)?(\w*_)?count$", ast.unparse(value)))


def test_no_message_says_1_records() -> None:
    found = [line for path in SOURCES.rglob("*.py") for line in plain_counts(path)]
    assert not found, "use kaa.model.words.count_text"
