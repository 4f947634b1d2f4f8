"""What is taken for a regular expression of a client, and how long it may take."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.regex import compile_regex
from kaa.limits import LOOP_HELD_MS_MAX, REGEX_CHARACTERS_MAX
from kaa.wire.errors import Errors

NO_EXPRESSIONS = ["(", "[a", "*", "a**", "(?=a)", "\\", "x{1001}", "\\1", ")"]
TOO_LARGE = [
    "((((x{100}){100}){100}){100})",
    "x" * (REGEX_CHARACTERS_MAX + 1),
    r"\pL" * 9,
    r"\pL{1000}",
    r"[^\PN\pL]" * 200,
]
LONG = [
    "|".join(f"orders-{number:06}" for number in range(140)),
    r"\w{9}" * 390,
    r"(?i)[\x{100}-\x{ffff}]" * 90,
    "(?:a?){9}" * 220,
    r"\pL" * 8,
]


@pytest.mark.parametrize("regex", NO_EXPRESSIONS)
def test_what_is_no_expression(regex: str) -> None:
    with pytest.raises(CoordinatorError) as refused:
        compile_regex(regex)
    assert refused.value.error is Errors.INVALID_REGULAR_EXPRESSION
    assert str(refused.value.message).startswith(f"{regex} is not a regular expression of RE2: ")


@pytest.mark.parametrize("regex", TOO_LARGE)
def test_what_would_take_too_much(regex: str) -> None:
    with pytest.raises(CoordinatorError) as refused:
        compile_regex(regex)
    assert refused.value.error is Errors.INVALID_REGULAR_EXPRESSION
    assert len(str(refused.value.message)) < 300


@pytest.mark.parametrize("regex", [*LONG, *TOO_LARGE])
def test_none_holds_the_loop(regex: str) -> None:
    # What was compiled lately is remembered: each try has an expression of its own.
    assert min(_compile_ms(f"{regex}{'y' * number}") for number in range(1, 6)) < LOOP_HELD_MS_MAX


def _compile_ms(regex: str) -> float:
    began = time.thread_time()
    with suppress(CoordinatorError):
        compile_regex(regex)
    return (time.thread_time() - began) * 1_000


def test_what_matches() -> None:
    assert compile_regex("a|b.*").fullmatch("bc")
    assert not compile_regex("a|b.*").fullmatch("ab")
