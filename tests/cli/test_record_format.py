from __future__ import annotations

import pytest

from kaa.cli.record_format import as_json, compile_format
from kaa.records import Record

RECORD = Record(7, 1000, b"k", b"\xff", (("h", b"x"), ("n", None)))
NULLS = Record(8, -1, None, None)


def test_letters_and_escapes() -> None:
    write = compile_format("%t %p %o %T %k=%s %K,%S [%h] 100%%\\t\\\\\\n")
    assert write("t", 3, RECORD) == b"t 3 7 1000 k=\xff 1,1 [h=x,n=NULL] 100%\t\\\n"
    assert compile_format("%k %s %K %S", b"-")("t", 0, NULLS) == b"- - -1 -1"


@pytest.mark.parametrize("text", ["%x", "%", "\\q", "\\"])
def test_what_is_no_format(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|ends with"):
        compile_format(text)


def test_json() -> None:
    assert as_json("t", 1, RECORD) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp_ms": 1000,
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [["h", "x"], ["n", None]],
    }
