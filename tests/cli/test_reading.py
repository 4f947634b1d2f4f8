from __future__ import annotations

import click
import pytest

from kaa.cli.reading import record_filter
from kaa.client.consumer.records import ConsumerRecord


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("ke.", True), ("val", True), ("name=x", True), ("nosuch", False), ("^x$", False)],
)
def test_a_pattern_is_looked_for_everywhere(pattern: str, found: bool) -> None:
    is_wanted = record_filter(pattern)
    assert is_wanted is not None
    assert (
        is_wanted(
            ConsumerRecord("orders", 3, 0, 0, b"key", b"value", (("name", b"x"), ("none", None)))
        )
        is found
    )
    assert not is_wanted(ConsumerRecord("orders", 3, 0, 0, None, None))


def test_without_a_pattern_everything_is_wanted() -> None:
    assert record_filter(None) is None
    with pytest.raises(click.UsageError, match="is not a pattern"):
        record_filter("(")
