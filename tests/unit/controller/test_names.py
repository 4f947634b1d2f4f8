from __future__ import annotations

import pytest

from kaa.controller.names import has_collision_characters, topic_name_problem, unified


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [
        ("a", True),
        ("A-z_0.9", True),
        ("x" * 249, True),
        ("x" * 250, False),
        ("", False),
        (".", False),
        ("..", False),
        ("a b", False),
        ("a/b", False),
        ("ä", False),
        ("a\n", False),
    ],
)
def test_names(name: str, is_allowed: bool) -> None:
    assert (topic_name_problem(name) is None) is is_allowed


def test_names_that_a_metric_cannot_tell_apart() -> None:
    assert unified("a.b_c") == unified("a_b.c") == "a_b_c"
    assert has_collision_characters("a.b")
    assert has_collision_characters("a_b")
    assert not has_collision_characters("a-b")
