"""Text to typed value and back, by Java's rules."""

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa import limits
from kaa.config.values import (
    ConfigError,
    ConfigType,
    ConfigValue,
    Password,
    parse_pairs,
    parse_value,
    shown,
    split_list,
    value_text,
)


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("true", ConfigType.BOOLEAN, True),
        (" FALSE\t", ConfigType.BOOLEAN, False),
        ("  a b ", ConfigType.STRING, "a b"),
        ("", ConfigType.STRING, ""),
        ("+7", ConfigType.INT, 7),
        ("-2147483648", ConfigType.INT, -(2**31)),
        ("000000000000000000000000012", ConfigType.INT, 12),
        ("32767", ConfigType.SHORT, 32767),
        ("9223372036854775807", ConfigType.LONG, 2**63 - 1),
        ("\u0661\u0662", ConfigType.INT, 12),
        (".5", ConfigType.DOUBLE, 0.5),
        ("1e3d", ConfigType.DOUBLE, 1000.0),
        ("-Infinity", ConfigType.DOUBLE, -math.inf),
        ("0x1.8p1", ConfigType.DOUBLE, 3.0),
        ("0x1p99999", ConfigType.DOUBLE, math.inf),
        ("a , b,c", ConfigType.LIST, ("a", "b", "c")),
        ("a,", ConfigType.LIST, ("a", "")),
        ("  ", ConfigType.LIST, ()),
        (" org.Example ", ConfigType.CLASS, "org.Example"),
        (" hunter2 ", ConfigType.PASSWORD, Password("hunter2")),
    ],
)
def test_good_text(text: str, type_: ConfigType, value: ConfigValue) -> None:
    assert parse_value("name", text, type_) == value


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("yes", ConfigType.BOOLEAN),
        ("1", ConfigType.BOOLEAN),
        ("", ConfigType.BOOLEAN),
        ("2147483648", ConfigType.INT),
        ("32768", ConfigType.SHORT),
        ("9223372036854775808", ConfigType.LONG),
        ("1_000", ConfigType.INT),
        ("1.0", ConfigType.INT),
        ("--1", ConfigType.INT),
        ("", ConfigType.LONG),
        ("9" * 100_000, ConfigType.LONG),
        ("nan", ConfigType.DOUBLE),
        ("1_0.0", ConfigType.DOUBLE),
        ("0x1.8", ConfigType.DOUBLE),
        ("1,5", ConfigType.DOUBLE),
        ("", ConfigType.DOUBLE),
    ],
)
def test_bad_text_names_the_setting_and_what_is_expected(text: str, type_: ConfigType) -> None:
    with pytest.raises(ConfigError, match=r"for configuration some\.name: expected") as caught:
        parse_value("some.name", text, type_)
    assert len(str(caught.value)) < limits.CONFIG_SHOWN_CHARACTERS_MAX + 200


def test_nan_parses_as_in_java() -> None:
    value = parse_value("name", "NaN", ConfigType.DOUBLE)
    assert isinstance(value, float)
    assert math.isnan(value)


def test_a_value_has_a_limit() -> None:
    longest = "x" * limits.CONFIG_VALUE_CHARACTERS_MAX
    assert parse_value("name", longest, ConfigType.STRING) == longest
    with pytest.raises(ConfigError, match="limit"):
        parse_value("name", longest + "x", ConfigType.STRING)


def test_a_secret_never_shows() -> None:
    secret = Password("hunter2")
    assert secret.reveal() == "hunter2"
    for text in (repr(secret), str(secret), f"{secret}", shown(secret), str(value_text(secret))):
        assert text == "[hidden]"
    assert secret == Password("hunter2")
    assert hash(secret) == hash(Password("hunter2"))
    assert secret != Password("other")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (12, "12"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (9_999_999.0, "9999999.0"),
        (10_000_000.0, "1.0E7"),
        (123_456_789.5, "1.234567895E8"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (-1.5e-300, "-1.5E-300"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_text_of_a_value(value: ConfigValue, text: str | None) -> None:
    assert value_text(value) == text


@given(st.floats(allow_nan=False))
def test_a_double_survives_its_text(number: float) -> None:
    text = value_text(number)
    assert text is not None
    assert parse_value("name", text, ConfigType.DOUBLE) == number


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters=","), min_size=1)))
def test_a_list_survives_its_text(entries: list[str]) -> None:
    trimmed = tuple(
        stripped for entry in entries if (stripped := entry.strip("".join(map(chr, range(33)))))
    )
    text = value_text(trimmed)
    assert text is not None
    assert split_list(text) == trimmed


@given(st.text(), st.sampled_from(ConfigType))
def test_hostile_text_is_a_value_or_a_config_error(text: str, type_: ConfigType) -> None:
    with suppress(ConfigError):
        value = parse_value("name", text, type_)
        assert isinstance(value, bool | int | float | str | tuple | Password)


def test_pairs() -> None:
    assert parse_pairs("m", "a:1, b : 2 ,::1:3,") == {"a": "1", "b": "2", "::1": "3"}
    assert parse_pairs("m", "") == {}
    for text in ("a", "a:1,,b:2", ",a:1"):
        with pytest.raises(ConfigError, match="name:value pairs"):
            parse_pairs("m", text)


def test_shown_values_are_bounded() -> None:
    assert shown(("a", "b")) == "[a, b]"
    assert shown(None) == "null"
    assert len(shown("x" * 10_000)) <= limits.CONFIG_SHOWN_CHARACTERS_MAX + 3
