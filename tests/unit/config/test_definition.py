"""Tables of settings and typed access to what was read with them."""

import subprocess
import sys

import pytest

from kaa.config import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValues,
    Importance,
    InvalidConfigError,
    Password,
)
from kaa.config.validators import ValidList, at_least

LOW = Importance.LOW
TABLE = ConfigDef(
    "test",
    (
        ConfigKey("count", ConfigType.INT, 3, LOW, "A count.", at_least(1)),
        ConfigKey("name", ConfigType.STRING, REQUIRED, LOW, "A name."),
        ConfigKey("secret", ConfigType.PASSWORD, None, LOW, "A secret."),
        ConfigKey("words", ConfigType.LIST, ("a",), LOW, "Words.", ValidList()),
        ConfigKey("raw", ConfigType.LIST, (), LOW, "Any entries."),
        ConfigKey("ratio", ConfigType.DOUBLE, 0.5, LOW, "A ratio."),
        ConfigKey("flag", ConfigType.BOOLEAN, False, LOW, "A flag."),
        ConfigKey("limit", ConfigType.LONG, None, LOW, "A limit or none."),
    ),
)


def test_defaults_and_given_values() -> None:
    values = TABLE.parse({"name": " x ", "count": "7", "secret": "s3cret", "elsewhere": "1"})
    assert values.get_int("count") == 7
    assert values.get_string("name") == "x"
    assert values.get_list("words") == ("a",)
    assert values.get_double("ratio") == 0.5
    assert values.get_boolean("flag") is False
    assert values.get_optional_int("limit") is None
    assert values.get_optional_int("count") == 7
    assert values.get_optional_string("name") == "x"
    assert values.get_optional_list("words") == ("a",)
    assert values.get_password("secret") == Password("s3cret")
    assert "elsewhere" not in values
    assert "s3cret" not in repr(values)
    assert set(values) == set(TABLE.names())


def test_every_problem_is_reported_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        TABLE.parse({"count": "0", "ratio": "x"})
    assert [problem.name for problem in caught.value.problems] == ["count", "name", "ratio"]
    assert str(caught.value).splitlines() == [
        "Invalid value 0 for configuration count: it must be at least 1",
        "Missing configuration name: it has no default and must be set.",
        "Invalid value x for configuration ratio: expected a number",
    ]


def test_other_defaults_replace_those_of_the_table() -> None:
    values = TABLE.parse({"count": "9"}, {"name": "from elsewhere", "count": 5, "flag": True})
    assert values.get_string("name") == "from elsewhere"
    assert values.get_int("count") == 9
    assert values.get_boolean("flag") is True


def test_repeated_entries_are_dropped_where_the_rule_is_about_entries() -> None:
    values = TABLE.parse({"name": "x", "words": "b,a,b", "raw": "b,a,b"})
    assert values.get_list("words") == ("b", "a")
    assert values.get_list("raw") == ("b", "a", "b")


def test_the_wrong_type_is_a_programming_error() -> None:
    values = TABLE.parse({"name": "x"})
    with pytest.raises(AssertionError):
        values.get_int("flag")
    with pytest.raises(AssertionError):
        values.get_string("words")
    with pytest.raises(KeyError):
        values.value("nowhere")


def test_keys() -> None:
    assert TABLE["secret"].is_sensitive
    assert not TABLE["count"].is_sensitive
    assert TABLE["words"].default_text == "a"
    assert TABLE["name"].default_text is None
    assert TABLE.get("nowhere") is None
    assert len(TABLE) == 8
    with pytest.raises(AssertionError, match="twice"):
        ConfigDef("twice", (TABLE["count"], TABLE["count"]))


def test_importing_the_package_loads_no_table_and_little_else() -> None:
    program = "import sys, kaa.config; print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    loaded = set(answer.stdout.split())
    heavy = {"asyncio", "dataclasses", "difflib", "inspect", "ipaddress", "logging", "socket"}
    assert not loaded & (heavy | {"kaa.config.broker", "kaa.config.tables"})


def test_values_compare_by_content() -> None:
    assert ConfigValues({"a": 1}) == ConfigValues({"a": 1})
    assert ConfigValues({"a": 1}) != ConfigValues({"a": 2})
    assert ConfigValues({"a": 1}).as_dict() == {"a": 1}
