from __future__ import annotations

import click
import pytest

from kaa.cli.topic.names import matcher, pattern_of

NAMES = ["orders", "orders-1", "orders-x", "payments"]


@pytest.mark.parametrize(
    ("patterns", "is_regex", "found"),
    [
        ((), False, NAMES),
        (("orders",), False, ["orders"]),
        (("orders-*", "pay*"), False, ["orders-1", "orders-x", "payments"]),
        (("orders-[0-9]",), False, ["orders-1"]),
        (("orders-.",), True, ["orders-1", "orders-x"]),
        (("order",), True, []),
    ],
)
def test_whole_names(patterns: tuple[str, ...], is_regex: bool, found: list[str]) -> None:
    is_meant = matcher(patterns, is_regex=is_regex)
    assert [name for name in NAMES if is_meant(name)] == found


def test_what_is_no_pattern() -> None:
    with pytest.raises(click.UsageError, match="is not a regular expression"):
        pattern_of("(")
