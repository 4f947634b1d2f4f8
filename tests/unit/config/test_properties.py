"""Java's properties text: reading, writing, hostile input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa import limits
from kaa.config.properties import (
    Property,
    as_mapping,
    decode_properties,
    format_properties,
    parse_properties,
)
from kaa.config.values import ConfigError


def pairs(text: str) -> dict[str, str]:
    return as_mapping(parse_properties(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("  a\t:\t1", {"a": "1"}),
        ("a==1", {"a": "=1"}),
        ("a = : 1", {"a": ": 1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("# a=1\n! b=2\n\n \t\n c=3", {"c": "3"}),
        ("# comment \\\na=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=1,\\\n   2,\\\n3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a=1\\", {"a": "1"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u0041\\u00e9\\uD83D\\uDE00", {"a": "Aé😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("k\u00e9y=v\u00e4lue", {"k\u00e9y": "v\u00e4lue"}),
    ],
)
def test_reading(text: str, expected: dict[str, str]) -> None:
    assert pairs(text) == expected


def test_lines_are_counted_where_entries_start() -> None:
    text = "# one\na=1,\\\n 2\n\nb=3"
    assert parse_properties(text) == [Property("a", "1,2", 2), Property("b", "3", 5)]


def test_a_file_is_latin_1() -> None:
    assert as_mapping(decode_properties(b"a=\xe9")) == {"a": "é"}


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u", "a=\\uzzzz", "\\u+123=1", "x=1\ny=\\u00g0"])
def test_a_bad_escape_names_its_line(text: str) -> None:
    with pytest.raises(ConfigError, match=f"Line {text.count(chr(10)) + 1} "):
        parse_properties(text)


def test_limits() -> None:
    with pytest.raises(ConfigError, match="limit"):
        decode_properties(b"#" * (limits.CONFIG_FILE_BYTES_MAX + 1))
    many = "".join(f"k{i}=\n" for i in range(limits.CONFIG_SETTINGS_MAX + 1))
    with pytest.raises(ConfigError, match="more than"):
        parse_properties(many)


def test_a_long_run_of_continuations_is_quick() -> None:
    lines = 500_000
    assert pairs("a=" + "x\\\n" * lines) == {"a": "x" * lines}


@given(st.dictionaries(st.text(st.characters(exclude_categories=[])), st.text()))
def test_what_is_written_is_read_again(entries: dict[str, str]) -> None:
    written = format_properties(entries, "Of this run\nonly").encode("latin-1")
    assert as_mapping(decode_properties(written)) == entries


def test_writing_escapes_like_java() -> None:
    entries = {"a b": " x y", "c=d": "#1:2!", "é": "😀\n"}
    assert format_properties(entries, "note") == (
        "# note\na\\ b=\\ x y\nc\\=d=\\#1\\:2\\!\n\\u00E9=\\uD83D\\uDE00\\n\n"
    )


@given(st.binary())
def test_hostile_bytes_give_a_config_error_at_most(data: bytes) -> None:
    try:
        entries = decode_properties(data)
    except ConfigError:
        return
    assert all(entry.line >= 1 for entry in entries)
