"""Each kind of rule: what it takes, what it refuses, how it is described."""

import pytest

from kaa import limits
from kaa.config.validators import (
    AutoOffsetReset,
    GzipLevel,
    HostPorts,
    NonEmptyString,
    NonNull,
    QuorumVoters,
    Range,
    ThrottledReplicas,
    Validator,
    ValidList,
    at_least,
    between,
    is_duration_at_least_zero,
    one_of,
    one_of_any_case,
)
from kaa.config.values import ConfigError, ConfigValue

CASES: list[tuple[Validator, str, list[ConfigValue], list[ConfigValue]]] = [
    (at_least(1), "[1,...]", [1, 2**62], [0, -1, None]),
    (between(0, 0.5), "[0,...,0.5]", [0.0, 0.5], [-0.1, 0.6]),
    (Range(None, 5), "[...,5]", [-9, 5], [6]),
    (Range(None), "[...]", [0], []),
    (GzipLevel(), "[1,...,9] or -1", [-1, 1, 9], [0, 10, -2, None]),
    (one_of("a", "b"), "[a, b]", ["a"], ["A", "", None]),
    (one_of_any_case("A", "B"), "(case insensitive) [A, B]", ["a", "B"], ["c", "", None]),
    (NonEmptyString(), "non-empty string", ["a", None], [""]),
    (NonNull(), "non-null string", ["", "a"], [None]),
    (ValidList(), "", [(), ("a",)], [None, ("",), ("a", "")]),
    (ValidList(empty_allowed=False), "", [("a",)], [(), None]),
    (ValidList(null_allowed=True), "", [None, ()], [("",)]),
    (ValidList(("a", "b")), "[a, b]", [(), ("b", "a")], [("c",), ("a", "c")]),
    (
        ThrottledReplicas(),
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        [(), ("*",), ("0:1", "1:2"), ("",), ("", "*")],
        [("x",), ("0:1:2",), ("0:1", "*"), ("0",)],
    ),
    (
        AutoOffsetReset(none_allowed=True),
        "[latest, earliest, none, by_duration:PnDTnHnMn.nS]",
        ["latest", "earliest", "none", "by_duration:PT1H"],
        ["by_duration", "by_duration:", "by_duration:-PT1H", "Latest", "", None],
    ),
    (
        AutoOffsetReset(none_allowed=False),
        "[latest, earliest, by_duration:PnDTnHnMn.nS]",
        ["latest"],
        ["none"],
    ),
    (
        QuorumVoters(),
        "non-empty list",
        [(), ("1@host:9093", "2@[::1]:9093")],
        [("host:1",), ("x@h:1",), ("1@h:1", "1@h:2"), tuple(f"{n}@h:1" for n in range(129))],
    ),
    (HostPorts(), "non-empty list", [(), ("h:1", "[::1]:0")], [("h",), ("h:99999",), ("h h:1",)]),
]


@pytest.mark.parametrize(("validator", "description", "good", "bad"), CASES)
def test_validator(
    validator: Validator, description: str, good: list[ConfigValue], bad: list[ConfigValue]
) -> None:
    assert validator.describe() == description
    assert bool(validator), "a rule is never mistaken for no rule"
    for value in good:
        validator.check("name", value)
    for value in bad:
        with pytest.raises(ConfigError, match="name"):
            validator.check("name", value)


def test_a_list_has_a_limit() -> None:
    entries = tuple(map(str, range(limits.CONFIG_LIST_ENTRIES_MAX + 1)))
    with pytest.raises(ConfigError, match="limit"):
        ValidList().check("name", entries)
    ValidList().check("name", entries[1:])


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("P1D", True),
        ("PT0S", True),
        ("pt1h2m3.5s", True),
        ("PT1,5S", True),
        ("P-1DT24H", True),
        ("-PT-1H", True),
        ("PT-0.5S", False),
        ("-PT1S", False),
        ("P", False),
        ("PT", False),
        ("P1DT", False),
        ("P1W", False),
        ("PT9223372036854775807S", True),
        ("PT9223372036854775808S", False),
        ("P1D ", False),
        ("", False),
    ],
)
def test_durations(text: str, accepted: bool) -> None:
    assert is_duration_at_least_zero(text) is accepted
